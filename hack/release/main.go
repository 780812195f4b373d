// SPDX-License-Identifier: Apache-2.0

// Command release makes the parts of a release that a shell does badly. hack/release.sh runs it; docs/releases.md describes
// the result. It reads SOURCE_DATE_EPOCH, the time in seconds that everything gets, so that the same sources give the same bytes.
//
//	release pack ARCHIVE FOLDER [PATH...]                          a tar archive of FOLDER or of paths in it; compressed, if it ends in gz
//	release kustomize ARCHIVE FOLDER DIGEST [PATH...]              the same, in which manifests name the image by its digest
//	release image ARCHIVE NAME VERSION COMMIT ARCH=PROGRAM...      the image, for several architectures; prints its digest
//	release sbom VERSION LICENSES PROGRAM...                       PROGRAM.spdx.json beside each, and their licenses in a folder
//	release chart FOLDER VERSION REPOSITORY DIGEST MANIFEST        a chart for Helm
//	release olm FOLDER VERSION MANIFEST                            a bundle for OLM, and what has to be there before
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const usage = `usage: release pack ARCHIVE FOLDER [PATH...]
       release kustomize ARCHIVE FOLDER DIGEST [PATH...]
       release image ARCHIVE NAME VERSION COMMIT ARCHITECTURE=PROGRAM...
       release sbom VERSION LICENSES-FOLDER PROGRAM...
       release chart FOLDER VERSION REPOSITORY DIGEST MANIFEST
       release olm FOLDER VERSION MANIFEST`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(seconds, 0).UTC()
	switch {
	case len(args) >= 3 && args[0] == "pack":
		return pack(args[1], args[2], args[3:], date)
	case len(args) >= 4 && args[0] == "kustomize":
		return packPinned(args[1], args[2], args[3], args[4:], date)
	case len(args) >= 6 && args[0] == "image":
		image := image{name: args[2], version: args[3], commit: args[4], date: date, certificates: publicAuthorities(), programs: map[string]string{}}
		for _, arg := range args[5:] {
			architecture, program, _ := strings.Cut(arg, "=")
			image.programs[architecture] = program
		}
		digest, err := image.write(args[1])
		if err == nil {
			fmt.Println(digest)
		}
		return err
	case len(args) >= 4 && args[0] == "sbom":
		return writeSBOMs(args[1], args[2], args[3:], date)
	case len(args) == 6 && args[0] == "chart":
		return writeChart(args[1], args[2], args[3], args[4], args[5])
	case len(args) == 4 && args[0] == "olm":
		return writeOLM(args[1], args[2], args[3])
	}
	return fmt.Errorf("%s", usage)
}
