// SPDX-License-Identifier: Apache-2.0

// Package page serves a web page of hosts to the browser of the user who runs the plugin, and to
// nobody else. The page has no credentials of the cluster: this package shows it what the plugin
// knows, and forwards a short list of requests with the user's kubeconfig.
//
// server.go listens, guard.go decides whose requests are answered, forward.go which requests are passed on,
// live.go sends the hosts, and detail.go and row.go say what is shown of one. The page itself is in assets.
package page
