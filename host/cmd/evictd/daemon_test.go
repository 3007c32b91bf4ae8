package main

import (
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/evictd/evictd/host/internal/face/command"
)

func TestASecondSignalEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan os.Signal, 2)
		var exited []int
		ctx, stop := untilSignal(t.Context(), ends, slog.New(slog.DiscardHandler), func(code int) { exited = append(exited, code) })
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("ended without a signal")
		}
		ends <- syscall.SIGTERM
		synctest.Wait()
		if ctx.Err() == nil || exited != nil {
			t.Fatalf("after the first signal: context %v, exits %v, want an orderly end", ctx.Err(), exited)
		}
		ends <- syscall.SIGINT
		synctest.Wait()
		stop()
		if len(exited) != 1 || exited[0] != command.ExitFailure {
			t.Errorf("after the second signal: exits %v, want one with code 1", exited)
		}
	})
}

func TestNoSignalNoWatchLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := untilSignal(t.Context(), make(chan os.Signal), slog.New(slog.DiscardHandler), func(int) { t.Error("exited") })
		stop() // synctest fails the test if the goroutine stays
		if ctx.Err() == nil {
			t.Error("the context lives on")
		}
	})
}
