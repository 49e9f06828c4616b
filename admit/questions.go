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
