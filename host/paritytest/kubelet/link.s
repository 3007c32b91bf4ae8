// A Go file with functions without a body needs an assembly file beside it.
