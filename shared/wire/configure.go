package wire

import (
	"errors"
	"fmt"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func encodeConfigureRequest(r eviction.ConfigureRequest) *pluginv1.ConfigureRequest {
	return &pluginv1.ConfigureRequest{
		Node: &pluginv1.NodeFacts{
			NodeName:         text(r.Node.NodeName),
			RootDir:          text(r.Node.RootDir),
			CgroupRoot:       text(r.Node.CgroupRoot),
			CgroupDriver:     text(r.Node.CgroupDriver),
			KubeletRootDir:   text(r.Node.KubeletRootDir),
			PodLogsDir:       text(r.Node.PodLogsDir),
			RuntimeEndpoint:  text(r.Node.RuntimeEndpoint),
			ImageEndpoint:    text(r.Node.ImageEndpoint),
			DryRun:           r.Node.DryRun,
			ExcludeHugePages: r.Node.ExcludeHugePages,
			MemoryFigure:     text(r.Node.MemoryFigure),
		},
		Config: r.Config,

		ReadsProblems: true,
	}
}

func decodeConfigureRequest(w *pluginv1.ConfigureRequest) eviction.ConfigureRequest {
	n := w.GetNode()
	return eviction.ConfigureRequest{
		Node: eviction.NodeFacts{
			NodeName:         n.GetNodeName(),
			RootDir:          n.GetRootDir(),
			CgroupRoot:       n.GetCgroupRoot(),
			CgroupDriver:     n.GetCgroupDriver(),
			KubeletRootDir:   n.GetKubeletRootDir(),
			PodLogsDir:       n.GetPodLogsDir(),
			RuntimeEndpoint:  n.GetRuntimeEndpoint(),
			ImageEndpoint:    n.GetImageEndpoint(),
			DryRun:           n.GetDryRun(),
			ExcludeHugePages: n.GetExcludeHugePages(),
			MemoryFigure:     n.GetMemoryFigure(),
		},
		Config: w.GetConfig(),
	}
}

const (
	// maxProblems bounds the problems of a configuration, and maxSteps the path of each.
	maxProblems = 64
	maxSteps    = 32
)

// problems returns what an error of Configure says about fields, with its other parts as problems without a path.
// It returns none if err names no field.
func problems(err error) []*pluginv1.Problem {
	if _, named := errors.AsType[eviction.FieldErrors](err); !named {
		return nil
	}
	all := fieldErrors(err)
	return encodeRows(all[:min(len(all), maxProblems)], encodeProblem)
}

func fieldErrors(err error) eviction.FieldErrors {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all eviction.FieldErrors
		for _, part := range joined.Unwrap() {
			all = append(all, fieldErrors(part)...)
		}
		return all
	}
	if fields, ok := errors.AsType[eviction.FieldErrors](err); ok {
		return fields
	}
	return eviction.FieldErrors{{Text: err.Error()}}
}

func encodeProblem(w *pluginv1.Problem, e *eviction.FieldError) {
	w.Path = encodeNames(e.Path[:min(len(e.Path), maxSteps)])
	for i, step := range w.Path {
		w.Path[i] = cut(step, maxKeyBytes)
	}
	w.Text = cut(text(e.Text), maxTextBytes)
}

func decodeProblem(e *eviction.FieldError, w *pluginv1.Problem) {
	e.Path, e.Text = w.GetPath(), w.GetText()
}

// decodeProblems returns an error of those in an answer, nil if there is none.
func decodeProblems(w *pluginv1.ConfigureResponse) error {
	if len(w.GetProblems()) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", eviction.ErrRefused, eviction.FieldErrors(decodeRows(w.GetProblems(), decodeProblem)))
}
