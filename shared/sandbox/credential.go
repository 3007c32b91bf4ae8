package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// credential returns the user and groups to run a process as, nil for the caller's own. Names
// are looked up at each start.
func credential(userName, groupName string) (*syscall.Credential, error) {
	if userName == "" && groupName == "" {
		return nil, nil
	}
	// Only root may change the supplementary groups; others keep their own.
	c := &syscall.Credential{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid()), NoSetGroups: os.Geteuid() != 0}
	groupKnown := true
	var err error
	if userName != "" {
		if c.Uid, c.Gid, groupKnown, err = lookUpUser(userName); err != nil {
			return nil, fmt.Errorf("user: %q: %w", userName, err)
		}
	}
	if groupName != "" {
		if c.Gid, err = lookUpGroup(groupName); err != nil {
			return nil, fmt.Errorf("group: %q: %w", groupName, err)
		}
	} else if !groupKnown {
		return nil, fmt.Errorf("group: user %s is not in /etc/passwd, want a group as well", userName)
	}
	if os.Geteuid() != 0 && (c.Uid != uint32(os.Geteuid()) || c.Gid != uint32(os.Getegid())) {
		return nil, fmt.Errorf("user: evictd runs as uid %d and cannot start a process as %d:%d, want it to run as root", os.Geteuid(), c.Uid, c.Gid)
	}
	return c, nil
}

// UserID returns the ID of a user of this machine, given by name or number.
func UserID(name string) (uint32, error) {
	uid, _, _, err := lookUpUser(name)
	if err != nil {
		return 0, fmt.Errorf("user: %q: %w", name, err)
	}
	return uid, nil
}

// lookUpUser returns the IDs of a user. listed: it is in /etc/passwd and so has a group.
func lookUpUser(name string) (uid, gid uint32, listed bool, err error) {
	u, err := user.Lookup(name)
	number, numeric := parseID(name)
	if err != nil && numeric {
		u, err = user.LookupId(name)
		if _, ok := errors.AsType[user.UnknownUserIdError](err); ok {
			return number, 0, false, nil
		}
	}
	if err != nil {
		return 0, 0, false, fmt.Errorf("%w, want the name of a user of this machine or a number", err)
	}
	uid, okUID := parseID(u.Uid)
	gid, okGID := parseID(u.Gid)
	if !okUID || !okGID {
		return 0, 0, false, fmt.Errorf("has the ids %.20q and %.20q, want numbers", u.Uid, u.Gid)
	}
	return uid, gid, true, nil
}

func lookUpGroup(name string) (uint32, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		if number, ok := parseID(name); ok {
			return number, nil
		}
		return 0, fmt.Errorf("%w, want the name of a group of this machine or a number", err)
	}
	number, ok := parseID(g.Gid)
	if !ok {
		return 0, fmt.Errorf("has the id %.20q, want a number", g.Gid)
	}
	return number, nil
}

// parseID refuses 2^32-1, which tells setuid(2) to change nothing.
func parseID(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && uint32(n) != ^uint32(0)
}
