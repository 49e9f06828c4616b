package rules

import (
	"slices"
	"strings"

	"usher.dev/usher/admit"
	"usher.dev/usher/colocation/api"
	"usher.dev/usher/colocation/quota"
)

// checkTopology checks the position of a quota in the tree. The root quota has none.
func (j *judge) checkTopology() {
	if j.new.Name == api.RootQuota {
		return
	}
	j.warnOfForce()
	j.checkIsParent()
	j.checkTreeID()
	j.checkChildren()
	if j.cycle() {
		return
	}
	j.checkLevels()
	if j.new.Parent == api.RootQuota {
		return
	}
	parent, known := j.tree.Get(j.new.Parent)
	if j.checkParent(parent); known {
		j.checkBelow(parent)
	}
}

// checkChildren checks a quota against its children.
func (j *judge) checkChildren() {
	children := j.children(j.new.Name)
	j.checkChildrenTreeID(children)
	j.checkChildrenKeys(children)
	j.checkChildrenSum(children)
	j.warnOfChildrenMax(children)
	if len(children) > 0 && j.create && !j.new.IsParent {
		j.warn(isParentPath, "quotas name this one as their parent (%s), but it is none; set the label to true", namesOf(children))
	}
}

// checkBelow checks a quota against its parent, if that is not the root quota.
func (j *judge) checkBelow(parent *quota.Quota) {
	j.checkKeys(parent)
	j.checkSum(parent)
	j.warnOfMax(parent)
	j.checkGuarantee(parent)
	if j.new.IsRoot && (j.moved() || !j.old.IsRoot) {
		j.warn(isRootPath, "the quota roots a tree, but stands below %s: its min is not checked against that quota", parent.Name)
	}
}

// children returns the quotas whose parent has the given name, except the one that changes.
func (j *judge) children(name string) (list []*quota.Quota) {
	for _, child := range j.tree.Children(name) {
		if q, ok := j.tree.Get(child); ok && child != j.new.Name {
			list = append(list, q)
		}
	}
	return list
}

func namesOf(quotas []*quota.Quota) string {
	list := make([]string, len(quotas))
	for i, q := range quotas {
		list[i] = q.Name
	}
	return admit.SomeNames(list)
}

// checkIsParent keeps parents from having pods, and other quotas from having children.
func (j *judge) checkIsParent() {
	if j.create || j.old.IsParent == j.new.IsParent {
		return
	}
	if j.new.IsParent {
		if pods, total := j.HasPods(j.new.Name); total > 0 {
			j.refuse(isParentPath, "true",
				"a parent has no pods of its own, but this quota has %s; let them end, or move them to another quota first", somePods(pods, total))
		}
	} else if children := j.children(j.new.Name); len(children) > 0 {
		j.refuse(isParentPath, "false", "the quota has children (%s); move them to another parent or delete them first", namesOf(children))
	}
}

// checkTreeID keeps a quota in its tree, and in its parent's.
func (j *judge) checkTreeID() {
	if !j.create && j.old.TreeID != j.new.TreeID {
		j.refuse(treePath, j.new.TreeID, "was %q, and a quota stays in its tree; create a new quota in the other one", j.old.TreeID)
	}
	parent, ok := j.tree.Get(j.new.Parent)
	if ok && parent.Name != api.RootQuota && parent.TreeID != j.new.TreeID && j.moved() {
		j.refuse(treePath, j.new.TreeID, "is not that of its parent %s, which is %q; both must be the same", parent.Name, parent.TreeID)
	}
}

// checkChildrenTreeID keeps children in the tree of their parent.
func (j *judge) checkChildrenTreeID(children []*quota.Quota) {
	others := slices.DeleteFunc(slices.Clone(children), func(child *quota.Quota) bool { return child.TreeID == j.new.TreeID })
	if len(others) > 0 && (j.create || j.old.TreeID != j.new.TreeID) {
		j.refuse(treePath, j.new.TreeID, "is not that of its child %s, which is %q; both must be the same", others[0].Name, others[0].TreeID)
	}
}

// checkParent requires a parent that exists and may have children. A quota that already is its child may stay.
func (j *judge) checkParent(parent *quota.Quota) {
	switch {
	case !j.moved():
	case parent == nil:
		j.refuse(parentPath, j.new.Parent, "there is no such quota; create the parent first")
	case parent.Deleting:
		j.refuse(parentPath, j.new.Parent, "is being deleted; choose another parent")
	case !parent.IsParent:
		j.refuse(parentPath, j.new.Parent, "is no parent; set its label %s to true first", api.LabelQuotaIsParent)
	}
}

// cycle refuses a parent that is a descendant of the quota, and reports whether it is. Other problems with such a
// parent are not reported.
func (j *judge) cycle() bool {
	if !j.moved() {
		return j.new.Parent == j.new.Name
	}
	way := []string{j.new.Name}
	for name, seen := j.new.Parent, map[string]bool{}; name != "" && !seen[name]; name = j.parentOf(name) {
		seen[name] = true
		way = append(way, name)
		if name == j.new.Name {
			if len(way) > maxLevels {
				way = append(way[:admit.MaxNames], "...", name)
			}
			j.refuse(parentPath, j.new.Parent, "would put the quota below itself: %s; choose a parent that is not below it", strings.Join(way, " -> "))
			return true
		}
	}
	return false
}

// parentOf returns the name of a quota's parent; empty for the root quota and for quotas that do not exist.
func (j *judge) parentOf(name string) string {
	if q, ok := j.tree.Get(name); ok {
		return q.Parent
	}
	return ""
}

// maxLevels is the maximum depth of quotas, not counting the root quota. Every decision about a quota or a pod walks
// the whole path up, so a chain of thousands would make all of them slow. No organisation has that many levels.
const maxLevels = 32

// checkLevels refuses a position that makes a path too long, including the quotas that are already below. Where longer
// paths are stored, their quotas may stay and move up.
func (j *judge) checkLevels() {
	if !j.moved() {
		return
	}
	above, below := len(j.tree.Path(j.new.Parent)), j.levelsBelow()
	levels := above + 1 + below
	if levels <= maxLevels || !j.create && above < len(j.tree.Path(j.old.Parent)) {
		return
	}
	j.refuse(parentPath, j.new.Parent, "would make %d levels of quotas, %d above this one and %d below, and %d are allowed; choose a parent "+
		"nearer to the root quota, or move what is below this one up first",
		levels, above, below, maxLevels)
}

// levelsBelow returns how many levels of quotas are below the quota. The walk down ends even if stored quotas form a
// cycle: a member of a cycle has no parent outside of it, and the quota itself is excluded as a child here.
func (j *judge) levelsBelow() (levels int) {
	for level := j.children(j.new.Name); len(level) > 0; levels++ {
		var next []*quota.Quota
		for _, q := range level {
			next = append(next, j.children(q.Name)...)
		}
		level = next
	}
	return levels
}
