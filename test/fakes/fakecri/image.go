package fakecri

import (
	"context"
	"encoding/json"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// AddImage puts an image on the node.
func (s *Server) AddImage(i *runtimeapi.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images = append(s.images, proto.CloneOf(i))
	s.announce()
}

// ImageIDs returns the IDs of the existing images.
func (s *Server) ImageIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, i := range s.images {
		ids = append(ids, i.GetId())
	}
	return ids
}

// SetSandboxImage sets the sandbox image in the verbose status, as containerd 1 reports it.
func (s *Server) SetSandboxImage(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sandboxImage = name
}

// SetImageFs sets the answer of ImageFsInfo, which is unimplemented before.
func (s *Server) SetImageFs(info *runtimeapi.ImageFsInfoResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.imageFs = info
}

// SetImageDir sets the directory of images and writable layers.
func (s *Server) SetImageDir(dir string) {
	at := []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir}}}
	s.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: at, ContainerFilesystems: at})
}

// Status implements CRI.
func (s *Server) Status(_ context.Context, req *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{}}
	if req.GetVerbose() {
		config, err := json.Marshal(map[string]any{"sandboxImage": s.sandboxImage, "containerd": map[string]string{}})
		if err != nil {
			return nil, err
		}
		out.Info = map[string]string{"config": string(config)}
	}
	return out, nil
}

// ListImages implements CRI.
func (s *Server) ListImages(_ context.Context, _ *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &runtimeapi.ListImagesResponse{}
	for _, i := range s.images {
		out.Images = append(out.Images, proto.CloneOf(i))
	}
	return out, nil
}

// ImageStatus implements CRI: a missing image is no error.
func (s *Server) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	name := req.GetImage().GetImage()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &runtimeapi.ImageStatusResponse{}
	if i := s.image(name); i >= 0 {
		out.Image = proto.CloneOf(s.images[i])
	}
	return out, nil
}

// RemoveImage implements CRI: it even removes an image that is in use.
func (s *Server) RemoveImage(_ context.Context, req *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	name := req.GetImage().GetImage()
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.image(name); i >= 0 {
		id := s.images[i].GetId()
		s.images = slices.Delete(s.images, i, i+1)
		s.removed(RemoveImage, id)
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo implements CRI.
func (s *Server) ImageFsInfo(_ context.Context, _ *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.imageFs == nil {
		return nil, status.Error(codes.Unimplemented, "no filesystems were set")
	}
	return proto.CloneOf(s.imageFs), nil
}

// image returns the index of an image by ID, tag or digest, or -1. The caller holds the lock.
func (s *Server) image(name string) int {
	return slices.IndexFunc(s.images, func(i *runtimeapi.Image) bool {
		return i.GetId() == name || slices.Contains(i.GetRepoTags(), name) || slices.Contains(i.GetRepoDigests(), name)
	})
}
