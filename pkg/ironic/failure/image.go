// SPDX-License-Identifier: Apache-2.0

package failure

import "slices"

var checksumRules = []rule{
	{Meaning{"ChecksumNotListed", "The file of checksums does not list the image.",
		"Add the image to that file under its name, which is the last part of spec.image.url, without a directory; or write the checksum itself into spec.image.checksum."},
		[]string{"checksum file does not contain name", "checksum file does not list"}},
	{Meaning{"ChecksumFileUnreadable", "The file of checksums has no checksum that can be read.",
		"Correct the file, or write the checksum itself into spec.image.checksum."},
		[]string{"checksum file empty", "empty checksum file", "invalid checksum file"}},
	{Meaning{"ChecksumDiffers", "The image differs from its checksum.",
		"Correct spec.image.checksum and spec.image.checksumType, or put the right image at spec.image.url."},
		[]string{"image failed to verify against checksum", "error verifying image checksum", "image checksum is invalid or does not match"}},
	{Meaning{"ChecksumAlgorithm", "The kind of the checksum is not accepted.",
		"Use a checksum of SHA-256 or SHA-512: spec.image.checksum and spec.image.checksumType."},
		[]string{"md5 support is disabled", "checksum algorithm cannot be loaded", "unable to verify image * with available checksums",
			"unable to identify checksum algorithm", "algorithm could not be identified"}},
	{Meaning{"ChecksumURLNotSupported", "Ironic does not accept the URL of a checksum.",
		"Write the checksum itself into spec.image.checksum."},
		[]string{"use of remote checksum files is not supported"}},
	{Meaning{"ChecksumMissing", "The image has no checksum.",
		"Set spec.image.checksum."},
		[]string{"image checksum is not available", "missing are: * image_checksum", "missing are: * image_os_hash_algo"}},
}

// imagePhrases are what errors about the download of an image, its checksum or a ramdisk have.
var imagePhrases = []string{
	"validation of image href", "failed to download image", "error downloading image", "download of image", "image download timeout",
	"image tag", "the requested image", "the image registry", "image * is unacceptable", "not authorized for image",
	"unable to write image to", "failed to pull container image", "when attempting to evaluate image reference",
}

const imageURL = "the URL that the error names: spec.image.url or spec.image.checksum, or, if it is that of a ramdisk, what the administrator of the server has set for it"

var (
	imageTooLarge = Meaning{"ImageTooLarge", "The memory of the machine has no room for the image.",
		"Use an image in the raw format (spec.image.format: raw), which is not kept in memory."}
	conductorDiskFull = Meaning{"ConductorDiskFull", "Ironic has no disk space left for the image.",
		"Free or add disk space where Ironic runs."}
	imageServerUnreachable = Meaning{"ImageServerUnreachable", "The server of the image does not answer.",
		"Check that the server runs, and that Ironic and the machine's network reach " + imageURL + "."}
	bootLoader = Meaning{"BootLoader", "The boot loader could not be installed.",
		"Check that spec.bootMode is one for which the image is made: UEFI needs an EFI system partition."}
)

var imageRules = []rule{
	proxyRule,
	{conductorDiskFull, []string{"failed to download image * no space left on device"}},
	{Meaning{"ImageRateLimit", "The registry permits no more downloads of the image for now.",
		"Wait, or have the image in a registry without such a limit."},
		[]string{"rate limit", "http code 429", "status code 429"}},
	{Meaning{"ImageNotFound", "The server of the image does not have it.",
		"Correct " + imageURL + "."},
		[]string{"http code 404", "status code 404", "error: 404", "404 client error", "http code 410", "status code 410", "could not be found", "image file not found"}},
	{Meaning{"ImageRefused", "The server of the image refuses access to it.",
		"Have the server permit access to " + imageURL + "."},
		[]string{"http code 401", "http code 403", "status code 401", "status code 403", "401 client error", "403 client error", "requires authentication", "not authorized for image"}},
	// Since 33.0, Ironic follows all redirects, and before, one at most.
	{Meaning{"ImageRedirect", "The server of the image redirects Ironic to another URL.",
		"Put the URL to which it redirects in the end, which `curl -IL` shows, in place of " + imageURL + ". Ironic follows redirects since 33.0."},
		[]string{"received a url redirect", "http code 301", "http code 302", "http code 303", "http code 307", "http code 308"}},
	{Meaning{"ImageHead", "The server of the image does not answer HEAD requests, and Ironic sends one first.",
		"Have the server answer them as it does GET, or put the image on another server. Ironic has sent it to " + imageURL + "."},
		[]string{"http code 405 * head request", "http code 501 * head request"}},
	{Meaning{"ImageServerError", "The server of the image reports an error of its own.",
		"Look at the log of the server of the image."},
		[]string{"http code 500", "http code 502", "http code 503", "http code 504", "status code 500", "status code 502", "status code 503", "status code 504"}},
	{Meaning{"ImageClock", "The certificate of the server of the image is not valid now.",
		"Correct the clock of the machine in its firmware, and that of Ironic; or replace the certificate."},
		[]string{"certificate is not yet valid", "certificate has expired"}},
	{Meaning{"ImageCertificate", "The certificate of the server of the image is not trusted.",
		"Have Ironic and the ramdisk trust the authority that has signed it, or correct the certificate."},
		certificatePhrases},
	{imageServerUnreachable, slowTLSPhrases},
	{Meaning{"ImageServerTLS", "No TLS connection to the server of the image is possible.",
		"Correct the scheme, the port or the TLS versions of " + imageURL + "."},
		slices.Concat([]string{"unsupported_protocol", "handshake_failure", "alert handshake failure"}, noTLSPhrases, brokenTLSPhrases, failedTLSPhrases)},
	{imageTooLarge, []string{"no space left on device"}},
	{Meaning{"ImageServerName", "The host name of the server of the image cannot be resolved.",
		"Correct " + imageURL + "; or have DNS know the name, in the network of the machine too."},
		namePhrases},
	{Meaning{"ImageTimeout", "The image was not downloaded in time.",
		"Look at the server of the image and at the network between it and the machine."},
		[]string{"download exceeded max allowed time", "timed out reading next chunk", "image download timeout"}},
	{imageServerUnreachable, connectionPhrases},
	{Meaning{"ImageURLNotSupported", "Ironic does not know how to download the image.",
		"Correct spec.image.url: Ironic downloads http://, https:// and, if it is new enough, oci:// images."},
		[]string{"image download protocol", "scheme-less image href", "was not specific"}},
}

var diskRules = []rule{
	{Meaning{"ImageUnsafe", "The format of the image is not the one that the spec says, or is not accepted.",
		"Set spec.image.format to what the image is, such as qcow2 or raw; `qemu-img info` tells. If it is live-iso, leave that, or the ISO would be written to the disk: before 30.0, Ironic refuses ISOs with a partition table. Images that refer to other files are not accepted."},
		[]string{"image failed safety check", "image matched multiple potential formats", "the provided image is not valid for use", "the requested image is not valid for use",
			// Older ramdisks give the image to qemu-img without having looked at its format.
			"qemu-img: could not open * image is not in", "qemu-img: could not open * image not in"}},
	{conductorDiskFull, []string{"disk volume where * doesn't have enough disk space",
		// Ironic makes the image from which the BMC boots the ramdisk.
		"unable to start inspection: * no space left on device", "failed to prepare * no space left on device"}},
	// The ramdisk keeps the image in memory, and limits what qemu-img may have of it. Exit codes below zero are signals:
	// the kernel kills what there is no memory for, and qemu-img ends itself.
	{imageTooLarge, []string{"memory size is too small for requested image", "writing image to device * failed with exit code -9",
		"writing image to device * qemu-img: * cannot allocate memory", "writing image to device * failed to allocate", "writing image to device * resource temporarily unavailable"}},
	{Meaning{"DiskTooSmall", "The disk has no room for the image.",
		"Choose a larger disk with spec.rootDeviceHints: kubectl get hardwaredata {host} -o yaml shows the disks there are."},
		[]string{"writing image to device * no space left on device", "error writing image * no space left on device"}},
	{Meaning{"ImageUnreadable", "The ramdisk cannot read the image that it has downloaded.",
		"Check the image with `qemu-img check`, and make it anew: a part of it is missing or damaged. The end of the error has the words of qemu-img."},
		[]string{"writing image to device * qemu-img: error while reading", "writing image to device * qemu-img: could not open '/tmp/"}},
	{Meaning{"ImageNotWritten", "The image could not be written to the disk.",
		"Check the disk and its controller. The end of the error has the output of the command that has failed."},
		[]string{"error writing image to device", "writing image to device"}},
	{Meaning{"ImageWithoutPartitions", "The image has no partition table that can be read.",
		"Use an image of a whole disk whose sectors are as large as those of the disk."},
		[]string{"unable to find a valid partition table", "no partitions found on the device"}},
	{Meaning{"BootEntriesFull", "The firmware of the machine has no room for a boot entry.",
		"Remove old boot entries, and crash dumps of earlier kernels, from the firmware of the machine: in its setup, with efibootmgr, or with the clean step deploy.erase_pstore."},
		[]string{"could not prepare boot variable: no space left on device"}},
	{bootLoader, []string{"no partition with uuid"}},
	{Meaning{"NoRootDevice", "No disk fits the root device hints.",
		"Correct spec.rootDeviceHints: kubectl get hardwaredata {host} -o yaml shows the disks there are. A host without hints asks for /dev/sda, or for what its hardware profile says; with empty ones, Ironic takes the smallest disk of at least 4 GiB."},
		[]string{"no suitable device was found", "no devices could be found using the root device hints", "failed to validate the root device hints", "error finding the disk or partition device"}},
	{bootLoader, []string{"failed to install a bootloader", "boot loader to device", "install of legacy bios bootloaders disabled"}},
	{Meaning{"DiskProtected", "A disk has contents that are protected, so nothing was erased.",
		"Detach the shared disk from the machine, or have the ramdisk permit it to be erased."},
		[]string{"protected device located", "this volume or contents may be a shared block device"}},
	{Meaning{"DiskNotErased", "A disk could not be erased.",
		"Check that disk: the error names it. A disk that is frozen, locked, read-only or faulty cannot be erased. With spec.automatedCleaningMode: disabled, none is."},
		[]string{"error erasing block device", "failed to erase the metadata", "failed to conduct an express erase", "is frozen and cannot be erased",
			"already has a security password set", "failed to invoke erase of device", "failed to nvme format device"}},
}
