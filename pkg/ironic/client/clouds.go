// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"sigs.k8s.io/yaml"
)

// parseCloud returns how to authenticate with the Keystone of a cloud, and how to find Ironic in its catalog.
func parseCloud(cfg Config) (gophercloud.AuthOptions, gophercloud.EndpointOpts, error) {
	if len(cfg.CloudsYAML) > 0 {
		if _, err := readCloud(cfg); err != nil {
			return gophercloud.AuthOptions{}, gophercloud.EndpointOpts{}, err
		}
	}
	auth, endpoint, _, err := parse(cfg)
	switch {
	case err == nil && auth.IdentityEndpoint == "":
		err = errNoKeystone
	case err != nil && !errors.Is(err, errNoKeystone) && len(cfg.CloudsYAML) > 0:
		err = errInvalidClouds // errors of the parser quote what they cannot use
	}
	return auth, endpoint, err
}

// parse reads the cloud. gophercloud panics over one without "auth", as that of an Ironic without Keystone is, and may over others:
// a file, or the Secret of an IronicInstance, must not end the server.
func parse(cfg Config) (auth gophercloud.AuthOptions, endpoint gophercloud.EndpointOpts, config *tls.Config, err error) {
	defer func() {
		if recover() != nil {
			err = errNoKeystone
		}
	}()
	return clouds.Parse(cloudOptions(cfg)...)
}

func cloudOptions(cfg Config) []clouds.ParseOption {
	options := []clouds.ParseOption{clouds.WithCloudName(cfg.Cloud)}
	if len(cfg.CloudsYAML) > 0 {
		// The environment of this process and the files beside it are about another cloud.
		options = append(options, clouds.WithCloudsYAML(bytes.NewReader(cfg.CloudsYAML)), clouds.WithCloudsPublicYAML(strings.NewReader("{}")),
			clouds.WithRegion(""), clouds.WithEndpointType(""))
	}
	if cfg.CAFile != "" {
		options = append(options, clouds.WithCACertPath(cfg.CAFile))
	}
	if cfg.CertFile != "" {
		options = append(options, clouds.WithClientCertPath(cfg.CertFile), clouds.WithClientKeyPath(cfg.KeyFile))
	}
	if cfg.Insecure {
		options = append(options, clouds.WithInsecure(true))
	}
	return options
}

// cloudTLS returns the TLS configuration of a cloud in a clouds.yaml that is a file.
func cloudTLS(cfg Config) (*tls.Config, error) {
	_, _, config, err := parse(cfg)
	return config, err
}

var (
	errInvalidClouds = errors.New("the clouds.yaml is not a valid one")
	errNoKeystone    = errors.New("clouds.yaml has no auth_url for it. Only an Ironic with Keystone has a cloud: for others, leave it out")
)

// givenCloud is what a cloud in Config.CloudsYAML says of certificates.
type givenCloud struct {
	CACert any   `json:"cacert"`
	Cert   any   `json:"cert"`
	Key    any   `json:"key"`
	Verify *bool `json:"verify"`
}

// readCloud returns the cloud in Config.CloudsYAML. Its errors repeat nothing of the content, which has a password.
func readCloud(cfg Config) (givenCloud, error) {
	var content struct {
		Clouds map[string]givenCloud `json:"clouds"`
	}
	if yaml.Unmarshal(cfg.CloudsYAML, &content) != nil {
		return givenCloud{}, errInvalidClouds
	}
	cloud, found := content.Clouds[cfg.Cloud]
	switch {
	case !found:
		return cloud, fmt.Errorf("the clouds.yaml has no cloud %q", cfg.Cloud)
	case cloud.CACert != nil, cloud.Cert != nil, cloud.Key != nil:
		return cloud, fmt.Errorf("the clouds.yaml names files for cloud %q (cacert, cert or key), which would be files of this server: remove them", cfg.Cloud)
	}
	return cloud, nil
}
