package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// credential returns who a process runs as, nil for the host's own user and
// groups. Names are looked up at each start.
func credential(userName, groupName string) (*syscall.Credential, error) {
	if userName == "" && groupName == "" {
		return nil, nil
	}
	c := &syscall.Credential{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}
	groupKnown := true
	if userName != "" {
		u, err := lookUpUser(userName)
		if err != nil {
			return nil, fmt.Errorf("user: %w", err)
		}
		c.Uid = u.uid
		c.Gid, groupKnown = u.gid, u.listed
	}
	if groupName != "" {
		gid, err := lookUpGroup(groupName)
		if err != nil {
			return nil, fmt.Errorf("group: %w", err)
		}
		c.Gid, groupKnown = gid, true
	}
	if !groupKnown {
		return nil, fmt.Errorf("group: user %s is not in /etc/passwd, want a group as well", userName)
	}
	if os.Geteuid() != 0 && (c.Uid != uint32(os.Geteuid()) || c.Gid != uint32(os.Getegid())) {
		return nil, fmt.Errorf("user: evictd runs as uid %d and cannot start a process as %d:%d, want it to run as root", os.Geteuid(), c.Uid, c.Gid)
	}
	// Only root may change the supplementary groups; others keep their own.
	c.NoSetGroups = os.Geteuid() != 0
	return c, nil
}

type account struct {
	uid, gid uint32
	listed   bool // in /etc/passwd
}

func lookUpUser(name string) (account, error) {
	u, err := user.Lookup(name)
	number, numeric := parseID(name)
	if err != nil && numeric {
		u, err = user.LookupId(name)
		if _, ok := errors.AsType[user.UnknownUserIdError](err); ok {
			return account{uid: number}, nil
		}
	}
	if err != nil {
		return account{}, fmt.Errorf("%q: %w, want the name of a user of this machine or a number", name, err)
	}
	uid, okUID := parseID(u.Uid)
	gid, okGID := parseID(u.Gid)
	if !okUID || !okGID {
		return account{}, fmt.Errorf("%q: has the ids %.20q and %.20q, want numbers", name, u.Uid, u.Gid)
	}
	return account{uid, gid, true}, nil
}

func lookUpGroup(name string) (uint32, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		if number, ok := parseID(name); ok {
			return number, nil
		}
		return 0, fmt.Errorf("%q: %w, want the name of a group of this machine or a number", name, err)
	}
	number, ok := parseID(g.Gid)
	if !ok {
		return 0, fmt.Errorf("%q: has the id %.20q, want a number", name, g.Gid)
	}
	return number, nil
}

// parseID refuses 2^32-1, which means "leave it as it is" to setuid(2).
func parseID(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && uint32(n) != ^uint32(0)
}
