// Package browser tests the pages of usher in a headless Chromium, as a user would use them.
package browser
