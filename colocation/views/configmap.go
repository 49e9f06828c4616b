package views

import (
	"usher.dev/usher/admit"
	"usher.dev/usher/admit/document"
)

// ConfigMap is the view of a core/v1 ConfigMap.
type ConfigMap struct{ admit.Meta }

// AsConfigMap views a document as a ConfigMap.
func AsConfigMap(d *document.Document) *ConfigMap { return &ConfigMap{admit.MetaOf(d.Root())} }

// Data returns data: texts by key, without binaryData.
func (c *ConfigMap) Data() map[string]string { return admit.Texts(c.Root().At("data")) }
