package admit

import (
	"usher.dev/usher/document"
)

// ConfigMap is the view of a core/v1 ConfigMap.
type ConfigMap struct{ Meta }

// AsConfigMap views a document as a ConfigMap.
func AsConfigMap(d *document.Document) *ConfigMap { return &ConfigMap{MetaOf(d.Root())} }

// Data is data: texts by key, without binaryData.
func (c *ConfigMap) Data() map[string]string { return Texts(c.Root().At("data")) }
