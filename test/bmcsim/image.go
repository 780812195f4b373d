// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
)

// Image is an image that the ramdisk has written to disk.
type Image struct {
	// Step is write_image, or the step of a custom deployment.
	Step string
	// These fields are as Ironic passed them to the ramdisk.
	URL, Checksum, HashAlgorithm, HashValue, DiskFormat string
	// Authorization is the header with which the ramdisk has to fetch the image, if any.
	Authorization string
	// Bytes is the number of bytes that were fetched.
	Bytes int64
}

// imageClient accepts any certificate, because the checksum reveals a wrong image.
var imageClient = &http.Client{
	Timeout:   5 * time.Minute,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// writeImage executes the step of the deploy interface direct.
func (m *Machine) writeImage(ctx context.Context, args map[string]any) (any, error) {
	content, err := json.Marshal(args["image_info"])
	if err != nil {
		return nil, err
	}
	var info struct {
		URLs          []string `json:"urls"`
		Checksum      string   `json:"checksum"`
		HashAlgorithm string   `json:"os_hash_algo"`
		HashValue     string   `json:"os_hash_value"`
		DiskFormat    string   `json:"disk_format"`
		Authorization string   `json:"image_request_authorization"`
		ConfigDrive   any      `json:"configdrive"`
	}
	if err := json.Unmarshal(content, &info); err != nil {
		return nil, fmt.Errorf("image_info: %w", err)
	}
	if len(info.URLs) == 0 {
		return nil, errors.New("image_info has no URL")
	}
	image := Image{
		Step: "write_image", URL: info.URLs[0], Checksum: info.Checksum, HashAlgorithm: info.HashAlgorithm, HashValue: info.HashValue,
		DiskFormat: info.DiskFormat,
	}
	if header, err := base64.StdEncoding.DecodeString(info.Authorization); err != nil {
		return nil, fmt.Errorf("image_request_authorization: %w", err)
	} else {
		image.Authorization = string(header)
	}
	beginning, size, err := image.fetch(ctx)
	if err != nil {
		return nil, err
	}
	image.Bytes = size
	drive := args["configdrive"]
	if drive == nil {
		drive = info.ConfigDrive
	}
	disk, err := m.writeImageToDisk(ctx, image, beginning, drive)
	if err != nil {
		return nil, err
	}
	return "image written to " + disk, nil
}

// writeCustom executes a step of the deploy interface custom-agent, which takes the config drive from
// the node.
func (m *Machine) writeCustom(ctx context.Context, step string, instance map[string]any) (any, error) {
	_, err := m.writeImageToDisk(ctx, Image{Step: step}, []byte("installed by "+step+"\n"), instance["configdrive"])
	return nil, err
}

// writeImageToDisk writes an image and a config drive to the machine's disk. beginning is the part of the
// image that fits on the simulated disk. It returns the name of the disk.
func (m *Machine) writeImageToDisk(ctx context.Context, image Image, beginning []byte, configDrive any) (string, error) {
	drive, err := readConfigDrive(ctx, configDrive)
	if err != nil {
		return "", fmt.Errorf("config drive: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil { // the machine was switched off in the meantime
		return "", ctx.Err()
	}
	m.writeDisk(image.Step, beginning, drive)
	m.writes = append(m.writes, image)
	m.drive = drive
	return m.rootDisk(), nil
}

// fetch downloads the image and verifies its checksum. It returns the part of the image that fits on the
// simulated disk, and the size of the whole image.
func (i Image) fetch(ctx context.Context) (beginning []byte, size int64, err error) {
	algorithm, want := i.HashAlgorithm, i.HashValue
	if want == "" {
		algorithm, want = "", i.Checksum
	}
	if strings.HasPrefix(want, "http://") || strings.HasPrefix(want, "https://") {
		if want, err = checksumFrom(ctx, want, path.Base(i.URL)); err != nil {
			return nil, 0, err
		}
	}
	sum, err := newHash(algorithm, want)
	if err != nil {
		return nil, 0, err
	}
	content, err := get(ctx, i.URL, i.Authorization)
	if err != nil {
		return nil, 0, fmt.Errorf("download of image %s failed: %w", i.URL, err)
	}
	defer content.Close()
	body := io.TeeReader(content, sum)
	if beginning, err = io.ReadAll(io.LimitReader(body, diskSize)); err == nil {
		size, err = io.Copy(io.Discard, body)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("download of image %s failed: %w", i.URL, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, want) {
		return nil, 0, fmt.Errorf("image %s failed to verify against checksum: expected %s, actual %s", i.URL, want, got)
	}
	return beginning, size + int64(len(beginning)), nil
}

// get starts a download. The caller must close the result.
func get(ctx context.Context, url, authorization string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := imageClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("received status code %d, expected 200", response.StatusCode)
	}
	return response.Body, nil
}

// checksumFrom reads the checksum of a file from a list in the format of sha256sum, or from a file that
// contains only the checksum.
func checksumFrom(ctx context.Context, url, file string) (string, error) {
	content, err := download(ctx, url)
	if err != nil {
		return "", fmt.Errorf("download of checksum file %s failed: %w", url, err)
	}
	list := string(content)
	if words := strings.Fields(list); len(words) == 1 {
		return words[0], nil
	}
	for line := range strings.Lines(list) {
		if words := strings.Fields(line); len(words) == 2 && strings.TrimPrefix(words[1], "*") == file {
			return words[0], nil
		}
	}
	return "", fmt.Errorf("checksum file %s does not contain a checksum for %s", url, file)
}

// newHash returns the algorithm with a name or, without a name, the one whose checksums have the length
// of checksum.
func newHash(algorithm, checksum string) (hash.Hash, error) {
	switch {
	case algorithm == "md5", algorithm == "" && len(checksum) == hex.EncodedLen(md5.Size):
		return md5.New(), nil
	case algorithm == "sha256", algorithm == "" && len(checksum) == hex.EncodedLen(sha256.Size):
		return sha256.New(), nil
	case algorithm == "sha512", algorithm == "" && len(checksum) == hex.EncodedLen(sha512.Size):
		return sha512.New(), nil
	}
	return nil, fmt.Errorf("checksum %q with algorithm %q is not supported", checksum, algorithm)
}
