package admit

// NamespaceOf returns the Namespace of a request. If the cluster is read from files and lacks it, it counts as a
// namespace without labels and annotations, and the step's explanation says so.
func (q Questions) NamespaceOf(req *Request) (Namespace, error) {
	is, known, err := q.Namespace(req.Namespace)
	if err == nil && !known {
		req.Explain("the namespace %s is not known here: it counts as one without labels and annotations", req.Namespace)
	}
	return is, err
}

// LabelsOfNamespace returns a function that returns the labels of the request's namespace. It asks at most once, when it
// is first called.
func (q Questions) LabelsOfNamespace(req *Request) func() (map[string]string, error) {
	var known *Namespace
	return func() (map[string]string, error) {
		if known == nil {
			is, err := q.NamespaceOf(req)
			if err != nil {
				return nil, err
			}
			known = &is
		}
		return known.Labels, nil
	}
}
