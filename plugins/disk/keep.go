package disk

import (
	"encoding/json"
	"errors"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// KeptImages returns the rule by which image GC keeps images under this plugin's configuration, for
// another collector of images such as the kubelet's. It is nil if the configuration keeps none. One
// without these fields is not checked: it may be that of a vendor's plugin with this one's name.
func KeptImages(raw json.RawMessage) (func(tags, digests []string, id string) bool, error) {
	var fields struct{ KeepImages, ImportedImages json.RawMessage }
	if json.Unmarshal(raw, &fields) == nil && fields.KeepImages == nil && fields.ImportedImages == nil || len(raw) == 0 {
		return nil, nil
	}
	var c config
	if err := errors.Join(sdk.DecodeConfig(raw, &c), validate(&c, eviction.NodeFacts{})); err != nil {
		return nil, err
	}
	return c.Kept(), nil
}
