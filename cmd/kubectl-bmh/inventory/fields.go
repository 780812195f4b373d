// SPDX-License-Identifier: Apache-2.0

// Package inventory reads the lists of machines that people have, and makes hosts and Secrets of
// them. A line with a mistake costs the machine of that line and no other.
//
// read.go tells the formats apart; each has a file of its own: csv.go, list.go (the command's own), kubernetes.go,
// ironicnodes.go and installconfig.go. What is known and no list of machines is in refused.go.
package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// Entry is a machine of an inventory.
type Entry struct {
	// Line is the line of the inventory, counted from 1. It is 0 for a machine that was given
	// by flags.
	Line int

	Name      string
	Namespace string
	// Username and Password are what is written into a Secret. The password is in the
	// inventory, or in the file that PasswordFile names, or it is the same for all machines.
	Username     string
	Password     string
	PasswordFile string
	Labels       map[string]string
	Annotations  map[string]string
	// Secrets are those that the inventory has and the spec names.
	Secrets []*corev1.Secret
	Spec    metal3.BareMetalHostSpec
	// Given are the fields of the spec that the inventory gives, by their names in JSON, also those of bmc. Of the
	// others, a new host has the defaults, and a host that exists what it has: false is not the same as not given.
	Given sets.Set[string]
	// IsObject is set if the inventory has a whole BareMetalHost, which may have no BMC.
	IsObject bool
}

// NeedsPassword reports whether the inventory has no password for the machine, and names none.
func (e *Entry) NeedsPassword() bool {
	return !e.hasNoBMC() && e.Spec.BMC.CredentialsName == "" && e.Password == "" && e.PasswordFile == ""
}

func (e *Entry) hasNoBMC() bool { return e.IsObject && e.Spec.BMC == metal3.BMCDetails{} }

// inList reports whether the machine is one of a list, in which any value may be the password, because a row has slipped by a column.
func (e *Entry) inList() bool { return e.Line != 0 && !e.IsObject }

// Field is a column of a CSV inventory, a key of a YAML inventory, and a flag of the command.
type Field struct {
	// Name is the name in inventories.
	Name string
	// Flag is the name of the flag, empty if there is none.
	Flag  string
	Usage string
	// IsBool is set if the value is true or false.
	IsBool bool
	set    func(*Entry, string) error
}

// Set sets the field of an entry. An empty value changes nothing.
func (f *Field) Set(e *Entry, value string) error {
	if value == "" {
		return nil
	}
	if err := f.set(e, value); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	e.Given.Insert(f.Name) // which is that in JSON, if there is one and it can be false
	return nil
}

func text(of func(*Entry) *string) func(*Entry, string) error {
	return func(e *Entry, value string) error {
		*of(e) = value
		return nil
	}
}

func truth(of func(*Entry) *bool) func(*Entry, string) error {
	return func(e *Entry, value string) (err error) {
		*of(e), err = parseBool(value)
		return err
	}
}

func word[T ~string](of func(*Entry) *T) func(*Entry, string) error {
	return func(e *Entry, value string) error {
		*of(e) = T(value)
		return nil
	}
}

func image(e *Entry) *metal3.Image {
	if e.Spec.Image == nil {
		e.Spec.Image = &metal3.Image{}
	}
	return e.Spec.Image
}

// Fields are all fields, in the order of the documentation. What they mean is said by the
// fields of the host that they set.
var Fields = []Field{
	{Name: "name", set: text(func(e *Entry) *string { return &e.Name })},
	{Name: "namespace", set: text(func(e *Entry) *string { return &e.Namespace })},
	{Name: "address", Flag: "address", Usage: "Address of the BMC, for example redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1 or ipmi://192.0.2.7", set: text(func(e *Entry) *string { return &e.Spec.BMC.Address })},
	{Name: "username", Flag: "username", Usage: "User name at the BMC", set: text(func(e *Entry) *string { return &e.Username })},
	{Name: "password", set: text(func(e *Entry) *string { return &e.Password })},
	{Name: "passwordFile", Flag: "password-file", Usage: "File with the password of the BMC; - is stdin", set: text(func(e *Entry) *string { return &e.PasswordFile })},
	{Name: "credentialsName", Flag: "credentials-name", Usage: "A Secret that exists already, instead of user name and password", set: text(func(e *Entry) *string { return &e.Spec.BMC.CredentialsName })},
	{Name: "disableCertificateVerification", Flag: "disable-certificate-verification", IsBool: true, Usage: "Do not verify the TLS certificate of the BMC", set: truth(func(e *Entry) *bool { return &e.Spec.BMC.DisableCertificateVerification })},
	{Name: "bootMACAddress", Flag: "boot-mac", Usage: "MAC address that the host boots from", set: func(e *Entry, value string) (err error) {
		e.Spec.BootMACAddress, err = cleanMAC(value)
		return err
	}},
	{Name: "bootMode", Flag: "boot-mode", Usage: "UEFI, UEFISecureBoot or legacy", set: word(func(e *Entry) *metal3.BootMode { return &e.Spec.BootMode })},
	{Name: "online", Flag: "online", IsBool: true, Usage: "Whether the host is to be powered on (default true for new hosts)", set: truth(func(e *Entry) *bool { return &e.Spec.Online })},
	{Name: "externallyProvisioned", Flag: "externally-provisioned", IsBool: true, Usage: "The host runs a system already: it is adopted, and its disks are never written to", set: truth(func(e *Entry) *bool { return &e.Spec.ExternallyProvisioned })},
	{Name: "inspectionMode", Flag: "inspection-mode", Usage: "agent, fast or disabled", set: word(func(e *Entry) *metal3.InspectionMode { return &e.Spec.InspectionMode })},
	{Name: "automatedCleaningMode", Flag: "automated-cleaning-mode", Usage: "metadata or disabled", set: word(func(e *Entry) *metal3.AutomatedCleaningMode { return &e.Spec.AutomatedCleaningMode })},
	{Name: "architecture", Flag: "architecture", Usage: "CPU architecture, for example x86_64", set: text(func(e *Entry) *string { return &e.Spec.Architecture })},
	{Name: "rootDevice", Flag: "root-device", Usage: "Disk to which the image is written, for example /dev/disk/by-path/...", set: func(e *Entry, value string) error {
		e.Spec.RootDeviceHints = &metal3.RootDeviceHints{DeviceName: value}
		return nil
	}},
	{Name: "image", Flag: "image", Usage: "URL of an image: the host is provisioned with it when it is available", set: text(func(e *Entry) *string { return &image(e).URL })},
	{Name: "imageChecksum", Flag: "image-checksum", Usage: "Checksum of the image, or the URL of a file with checksums", set: text(func(e *Entry) *string { return &image(e).Checksum })},
	{Name: "imageChecksumType", Flag: "image-checksum-type", Usage: "md5, sha256, sha512 or auto", set: word(func(e *Entry) *metal3.ChecksumType { return &image(e).ChecksumType })},
	{Name: "imageFormat", Flag: "image-format", Usage: "raw, qcow2, vdi, vmdk or live-iso", set: func(e *Entry, value string) error {
		format := metal3.DiskFormat(value)
		image(e).DiskFormat = &format
		return nil
	}},
	{Name: "description", Flag: "description", Usage: "Description for people", set: text(func(e *Entry) *string { return &e.Spec.Description })},
	{Name: "labels", Flag: "labels", Usage: "Labels of the host, for example rack=7,row=b", set: setLabels},
}

func setLabels(e *Entry, value string) error {
	for _, pair := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",;| ", r) }) {
		key, labelValue, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return errors.New("must be pairs such as rack=7,row=b")
		}
		if e.Labels == nil {
			e.Labels = map[string]string{}
		}
		e.Labels[key] = labelValue
	}
	return nil
}

// aliases are other names that inventories use, and spreadsheets above all.
var aliases = map[string]string{
	"host": "name", "hostname": "name", "node": "name", "nodename": "name", "server": "name", "servername": "name", "machine": "name",
	"user": "username", "userid": "username", "login": "username", "pass": "password", "passwd": "password", "pwd": "password", "pw": "password",
	"mac": "bootmacaddress", "macaddress": "bootmacaddress", "macaddr": "bootmacaddress", "bootmac": "bootmacaddress",
	"pxemac": "bootmacaddress", "pxemacaddress": "bootmacaddress", "macpxe": "bootmacaddress", "bootnicmac": "bootmacaddress",
	"arch": "architecture", "cpuarch": "architecture", "secret": "credentialsname", "imageurl": "image", "comment": "description",
	"disk": "rootdevice",
}

// ofBMC finds what of a BMC a column is, such as iDRAC user, password (iLO) or IPMI/BMC IP. A MAC address of a BMC is not that of its host.
var ofBMC = regexp.MustCompile(`^(?:` + bmcNames + whatOfBMC + `?|` + whatOfBMC + bmcNames + `)$`)

const (
	bmcNames  = `((?:bmc|ipmi|redfish|(?:i?drac|ilo|imm|xcc|cimc|irmc)\d*|oob|outofband|mgmt|management)+)`
	whatOfBMC = `(user|username|userid|login|pass|password|passwd|pwd|pw|ip|address|addr|ipaddress|ipaddr|host|hostname|url)`
)

// ipmiNames are names of BMCs with which a host or an IP address alone is an address of IPMI, as in a BareMetalHost.
var ipmiNames = regexp.MustCompile(`^(?:bmc|ipmi)+$`)

// fieldOfBMC returns the field that a column is if its name says that it is of a BMC, or nil.
func fieldOfBMC(plain string) *Field {
	match := ofBMC.FindStringSubmatch(plain)
	if match == nil {
		return nil
	}
	bmcName, what := match[1]+match[4], match[2]+match[3]
	if name := cmp.Or(aliases[what], what); name == "username" || name == "password" {
		return ownField(name)
	}
	if ipmiNames.MatchString(bmcName) {
		return ownField("address")
	}
	return &addressWithScheme
}

// addressWithScheme is the address in a column whose name is not of IPMI, but of what most BMCs are reached by today, or of nothing in particular.
// A host or an IP address alone is one of IPMI elsewhere; here, it would have Ironic talk to the BMC by a protocol of which the inventory says nothing.
var addressWithScheme = Field{Name: "address", set: func(e *Entry, value string) error {
	if access, err := bmc.Parse(value, false); err == nil && access.Driver == "ipmi" && !strings.Contains(value, "://") {
		return errNoScheme
	}
	e.Spec.BMC.Address = value
	return nil
}}

// errNoScheme does not repeat the value, as errNoBool does not.
var errNoScheme = errors.New("has no scheme, and would be an address of IPMI: write redfish://, redfish-virtualmedia://, idrac-virtualmedia:// or another one before it, or ipmi:// if that is meant")

// fieldByName returns a field. Case and all but letters and digits do not matter.
func fieldByName(name string) (*Field, error) {
	plain := normal(name)
	if field := cmp.Or(ownField(cmp.Or(aliases[plain], plain)), fieldOfBMC(plain)); field != nil {
		return field, nil
	}
	return nil, fmt.Errorf("%q: there is no such field; kubectl bmh create --help lists them", name)
}

// ownField returns a field by its name in small letters, or nil.
func ownField(plain string) *Field {
	if i := slices.IndexFunc(Fields, func(f Field) bool { return normal(f.Name) == plain }); i >= 0 {
		return &Fields[i]
	}
	return nil
}

func normal(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// newEntry returns an entry with the defaults.
func newEntry(line int) Entry {
	return Entry{Line: line, Given: sets.New[string](), Spec: metal3.BareMetalHostSpec{Online: true}}
}

// New returns an entry for a machine that is given by flags.
func New(name string) Entry {
	e := newEntry(0)
	e.Name = name
	return e
}
