package cri

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/ground/printable"
)

// Reasons for cancelling a hook.
var (
	errGraceOver    = errors.New("cut short: the grace period is over")
	errSecondKill   = errors.New("cut short: the pod is killed with another grace period")
	errNotSupported = errors.New("want exec, httpGet or sleep")
)

// hooks runs preStop hooks. It is safe for concurrent use.
type hooks struct {
	client runtimeapi.RuntimeServiceClient
	web    web
}

// run runs a hook and returns nil if it succeeded. When ctx ends it returns soon with its cause,
// whatever the runtime or a server does.
func (h hooks) run(ctx context.Context, s step, sandboxes []string) error {
	var err error
	switch on := s.preStop(); {
	case on.Exec != nil:
		err = h.exec(ctx, s.id, on.Exec.Command)
	case on.HTTPGet != nil:
		err = h.get(ctx, on.HTTPGet, s.of, sandboxes)
	case on.Sleep != nil:
		err = sleep(ctx, time.Duration(min(on.Sleep.Seconds, math.MaxInt32))*time.Second)
	case on.TCPSocket != nil:
		return fmt.Errorf("lifecycle.preStop.tcpSocket is never run: %w", errNotSupported)
	default:
		return fmt.Errorf("lifecycle.preStop names nothing to run: %w", errNotSupported)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return printable.Clip(err)
}

// exec runs a command in the container. The runtime ends a cancelled command with the call, at the
// latest with the container.
func (h hooks) exec(ctx context.Context, containerID string, command []string) error {
	left := int64(0) // as long as it takes
	if ends, ok := ctx.Deadline(); ok {
		left = secondsUntil(ends)
	}
	done, err := h.client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: command, Timeout: left})
	if err != nil {
		return fmt.Errorf("lifecycle.preStop.exec: %w", err)
	}
	if code := done.GetExitCode(); code != 0 {
		return fmt.Errorf("lifecycle.preStop.exec: exit code %d: %s", code, done.GetStderr())
	}
	return nil
}

func (h hooks) get(ctx context.Context, action *v1.HTTPGetAction, of *v1.Container, sandboxes []string) error {
	host := action.Host
	if host == "" {
		var err error
		if host, err = h.podIP(ctx, sandboxes); err != nil {
			return fmt.Errorf("lifecycle.preStop.httpGet: %w", err)
		}
	}
	if err := h.web.get(ctx, action, of, host); err != nil {
		return fmt.Errorf("lifecycle.preStop.httpGet: %w", err)
	}
	return nil
}

// podIP returns the pod's address from its newest sandbox. For a pod in the host's network the
// runtime has none; it is the node's address.
func (h hooks) podIP(ctx context.Context, sandboxes []string) (string, error) {
	if len(sandboxes) == 0 {
		return "", errors.New("the pod has no sandbox, and so no address")
	}
	id := sandboxes[len(sandboxes)-1]
	reply, err := h.client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return "", fmt.Errorf("status of pod sandbox %s: %w", id, err)
	}
	s := reply.GetStatus()
	if ip := s.GetNetwork().GetIp(); ip != "" {
		return ip, nil
	}
	if s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE {
		return nodeAddress(), nil
	}
	return "", fmt.Errorf("pod sandbox %s has no address", id)
}

func sleep(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-over.C:
		return nil
	}
}

// secondsUntil returns the whole seconds until then, rounded up, 0 if it has passed.
func secondsUntil(then time.Time) int64 {
	return max(int64(math.Ceil(time.Until(then).Seconds())), 0)
}
