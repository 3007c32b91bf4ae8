// Package browser opens the pages of evictctl explain --html in Chromium, as a person does: by roles and names, by
// keyboard, on a phone, in the dark and on paper. It does not judge what a page says of a decision, but whether
// that reaches its reader.
package browser
