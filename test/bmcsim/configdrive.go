// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// ConfigDrive has the contents of the files on a config drive, by path, for example
// openstack/latest/user_data.
type ConfigDrive map[string][]byte

// The paths of the files that Ironic creates.
const (
	UserDataPath    = "openstack/latest/user_data"
	MetaDataPath    = "openstack/latest/meta_data.json"
	NetworkDataPath = "openstack/latest/network_data.json"
)

// UserData returns the user data, or an empty string if there is none.
func (d ConfigDrive) UserData() string { return string(d[UserDataPath]) }

// MetaData returns the metadata, or an empty string if there is none.
func (d ConfigDrive) MetaData() string { return string(d[MetaDataPath]) }

// NetworkData returns the network data, or an empty string if there is none.
func (d ConfigDrive) NetworkData() string { return string(d[NetworkDataPath]) }

// maxConfigDrive is the maximum size that Ironic allows, 64 MiB.
const maxConfigDrive = 64 << 20

// readConfigDrive reads a config drive in any form that Ironic can pass: nothing; an ISO 9660 image
// that is compressed by gzip and encoded in base64; the URL of such an image; or, with custom-agent,
// the parts from which Ironic would otherwise have built an image.
func readConfigDrive(ctx context.Context, value any) (ConfigDrive, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return configDriveOfParts(v)
	case string:
		if v == "" {
			return nil, nil
		}
		if strings.HasPrefix(v, "http://") || strings.HasPrefix(v, "https://") {
			content, err := download(ctx, v)
			if err != nil {
				return nil, err
			}
			v = string(content)
		}
		return configDriveOfImage(v)
	default:
		return nil, fmt.Errorf("unsupported type %T", value)
	}
}

func configDriveOfImage(text string) (ConfigDrive, error) {
	packed, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	image, err := io.ReadAll(io.LimitReader(z, maxConfigDrive))
	if err != nil {
		return nil, err
	}
	return readISO(image)
}

func configDriveOfParts(parts map[string]any) (ConfigDrive, error) {
	drive := ConfigDrive{}
	for key, path := range map[string]string{"meta_data": MetaDataPath, "network_data": NetworkDataPath, "user_data": UserDataPath} {
		switch v := parts[key].(type) {
		case nil:
		case string:
			drive[path] = []byte(v)
		default:
			content, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			drive[path] = content
		}
	}
	return drive, nil
}

// download downloads a file that is at most as large as a config drive.
func download(ctx context.Context, url string) ([]byte, error) {
	content, err := get(ctx, url, "")
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(io.LimitReader(content, maxConfigDrive))
}
