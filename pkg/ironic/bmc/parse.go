// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// endpoint is the part of an address behind the scheme.
type endpoint struct {
	plainHTTP  bool
	host       string
	port       string
	path       string
	privLevel  string
	skipVerify bool
}

// Parse understands the address of a BMC, also one that Check would not have
// people write. disableCertificateVerification goes into driver_info. Errors
// name the address without any user and password.
func Parse(address string, disableCertificateVerification bool) (Access, error) {
	fail := func(format string, args ...any) (Access, error) {
		return Access{}, refused(address, fmt.Errorf(format, args...))
	}
	if address == "" {
		return Access{}, errors.New("BMC address is empty")
	}
	// Refused before anything is taken apart: with a password in it, every part
	// of a malformed address may be part of the password.
	if strings.Contains(address, "@") {
		return fail("must not hold user or password: they belong into the Secret that spec.bmc.credentialsName names (an @ in a path is written %%40)")
	}
	scheme, rest := split(address)
	access, plain, ok := lookup(scheme)
	if !ok {
		return fail("unknown type %q%s", excerpt(scheme), insteadOf(scheme, rest))
	}
	// The scheme is out of the way, because url.Parse is stricter about schemes
	// than what is accepted here.
	parsed, err := url.Parse("bmc://" + rest)
	if err != nil {
		return fail("%s", whyMalformed(rest, err))
	}
	host := parsed.Hostname()
	if err := checkHost(host); err != nil {
		return fail("%w", err)
	}
	if port := parsed.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fail("port %s is not between 1 and 65535", excerpt(port))
		}
	}
	if !utf8.ValidString(parsed.Path) || strings.ContainsFunc(parsed.Path, unicode.IsControl) {
		return fail("the path has characters that are not text, and cannot be sent to Ironic")
	}
	privLevel := "ADMINISTRATOR"
	if level := parsed.Query().Get("privilegelevel"); level != "" {
		privLevel = strings.ToUpper(level)
		if !slices.Contains(privLevels, privLevel) {
			return fail("unknown privilegelevel %q; use %s", excerpt(level), strings.Join(privLevels, ", "))
		}
	}
	access.endpoint = endpoint{
		plainHTTP:  plain,
		host:       host,
		port:       parsed.Port(),
		path:       parsed.Path,
		privLevel:  privLevel,
		skipVerify: disableCertificateVerification,
	}
	return access, nil
}

// whyMalformed says what is wrong with an address that url.Parse refuses without its scheme.
func whyMalformed(rest string, err error) string {
	var urlError *url.Error
	if errors.As(err, &urlError) {
		err = urlError.Err
	}
	bracketed, _, _ := strings.Cut(rest, "]")
	if _, zone, isZone := strings.Cut(bracketed, "%"); isZone && strings.HasPrefix(rest, "[") && !strings.HasPrefix(zone, "25") {
		return "the zone of an IPv6 address is written with %25, as in [fe80::1%25eth0]"
	}
	if inside := strings.TrimPrefix(bracketed, "["); strings.HasPrefix(rest, "[") && !strings.Contains(inside, ":") {
		return fmt.Sprintf("brackets are for IPv6 addresses: write %s without them", excerpt(inside))
	}
	return excerpt(err.Error()) + "; use scheme://host[:port][/path]"
}

// insteadOf says what to write instead of a scheme that is none, in front of rest.
func insteadOf(scheme, rest string) string {
	rest = excerpt(strings.TrimLeft(rest, "/"))
	switch instead := meant(scheme); len(instead) {
	case 0:
		return "; use " + Accepted()
	case 1:
		return fmt.Sprintf(": write %s://%s", instead[0], rest)
	default:
		return fmt.Sprintf(": write %s://%s to boot from the network, or %s://%s to boot by virtual media", instead[0], rest, instead[1], rest)
	}
}

// meant returns the schemes that somebody may have meant with one that is none: that by which a host boots from the network, and that by
// which it boots by virtual media, unless it cannot. It returns nil if that is not known.
func meant(scheme string) []string {
	known, web := scheme, ""
	for _, suffix := range []string{"+http", "+https"} {
		if cut, has := strings.CutSuffix(scheme, suffix); has {
			known, web = cut, suffix
		}
	}
	switch known {
	case "https": // the URL of the BMC itself
		return []string{"redfish", "redfish-virtualmedia"}
	case "http":
		return []string{"redfish+http", "redfish-virtualmedia+http"}
	case "redfish-virtual-media", "irmc", "ilo6", "ibmc": // an Ironic of today talks Redfish to the last three
		return []string{"redfish" + web, "redfish-virtualmedia" + web}
	case "ilo4", "ilo4-virtualmedia": // which lacks what Ironic needs of Redfish
		return []string{"ipmi"}
	case "ilo5":
		return []string{"ilo5-redfish" + web, "ilo5-virtualmedia" + web}
	case "idrac", "idrac-virtual-media":
		return []string{"idrac-redfish" + web, "idrac-virtualmedia" + web}
	}
	return nil
}

// privLevels are the IPMI privilege levels that Ironic accepts.
var privLevels = []string{"ADMINISTRATOR", "OPERATOR", "USER", "CALLBACK"}

// Accepted lists the accepted forms of an address, for messages.
func Accepted() string {
	var all, redfish []string
	for _, known := range schemes {
		all = append(all, known.Scheme+"://")
		if known.redfish() {
			redfish = append(redfish, known.Scheme)
		}
	}
	return fmt.Sprintf("one of %s (%s also with +http or +https), or host[:port] alone for ipmi",
		strings.Join(all, ", "), strings.Join(redfish, ", "))
}

// Redact hides the user and password of an address that has them, also where
// the address is malformed.
func Redact(address string) string {
	at := strings.LastIndex(address, "@")
	if at < 0 {
		return address
	}
	prefix := ""
	if scheme, _, found := strings.Cut(address[:at], "://"); found {
		if _, _, known := lookup(strings.ToLower(scheme)); known {
			prefix = scheme + "://"
		}
	}
	return prefix + "***" + address[at:]
}

// excerpt shortens what an error quotes. An address may be as long as a request is.
func excerpt(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

var (
	schemePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*$`)
	portPattern   = regexp.MustCompile(`^[0-9]+([/?#]|$)`)
)

// split cuts an address into its scheme, in lower case, and what follows. Three
// forms are in use: scheme://host, scheme:host, and host or host:port for ipmi.
func split(address string) (scheme, rest string) {
	if scheme, rest, found := strings.Cut(address, "://"); found {
		return strings.ToLower(scheme), rest
	}
	scheme, rest, found := strings.Cut(address, ":")
	if !found {
		return "ipmi", address
	}
	scheme = strings.ToLower(scheme)
	if _, _, known := lookup(scheme); known {
		return scheme, rest
	}
	// What is not a scheme is a host. A host name with a port looks like a
	// scheme, but for the number behind it; an IPv6 address without its brackets
	// does too, but for the second colon.
	if !schemePattern.MatchString(scheme) || portPattern.MatchString(rest) || strings.Contains(rest, ":") {
		return "ipmi", address
	}
	return scheme, rest
}

// zonePattern is of the names of network interfaces.
var zonePattern = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,15}$`)

var labelPattern = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9])?$`)

func checkHost(host string) error {
	if host == "" {
		return errors.New("no host; use scheme://host[:port][/path]")
	}
	if address, err := netip.ParseAddr(host); err == nil {
		if zone := address.Zone(); zone != "" && !zonePattern.MatchString(zone) {
			return errors.New("not a valid host; what follows the % of an IPv6 address has to be a network interface, as in ipmi://[fe80::1%25eth0]")
		}
		return nil
	}
	if strings.Contains(host, ":") {
		return errors.New("not a valid host; an IPv6 address has to be in brackets, as in ipmi://[2001:db8::1]")
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := labels[len(labels)-1]
	valid := len(host) <= 253
	for _, label := range labels {
		valid = valid && labelPattern.MatchString(label)
	}
	// No top-level domain is a number: 192.168.1.256 is a mistyped IP address.
	if _, err := strconv.ParseUint(last, 10, 64); err == nil {
		valid = false
	}
	if !valid {
		return fmt.Errorf("host %q is neither an IP address nor a DNS name", excerpt(host))
	}
	return nil
}
