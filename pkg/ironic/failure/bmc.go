// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// certificatePhrases are what Python says of a certificate that it does not accept. The last three are of urllib3,
	// which compares the names itself: before 2.0, always.
	certificatePhrases = []string{"certificate_verify_failed", "certificate verify failed", "self-signed certificate", "self signed certificate",
		"certificate has expired", "certificate is not yet valid", "unable to get local issuer certificate", "hostname mismatch, certificate is not valid",
		"hostname ' * ' doesn't match", "subjectaltname fields were found", "too many wildcards in certificate dns name"}
	// namePhrases are what Python says of a host name that DNS does not know.
	namePhrases = []string{"name or service not known", "temporary failure in name resolution", "failed to resolve", "nodename nor servname provided",
		"no address associated with hostname", "name does not resolve", "nameresolutionerror"}
	// connectionPhrases are what Python says of a server that does not answer, or not properly.
	connectionPhrases = []string{"econnrefused", "connection refused", "ehostunreach", "no route to host", "enetunreach", "network is unreachable", "etimedout",
		"connecttimeouterror", "connecttimeout", "connect timeout", "connection timed out", "read timed out", "timed out", "max retries exceeded with url", "newconnectionerror",
		"connection aborted", "connection reset by peer", "remote end closed connection", "failed to establish a new connection"}
)

// proxyRule is of a connection to whatever Ironic connects to.
var proxyRule = rule{Meaning{"Proxy", "Ironic uses a proxy that does not let it through.",
	"Where Ironic runs, add the networks of the BMCs, the machines and the servers of images to NO_PROXY, or unset HTTPS_PROXY and HTTP_PROXY."},
	[]string{"unable to connect to proxy", "proxyerror", "tunnel connection failed", "proxy authentication required"}}

// noTLSPhrases are what Python says of an answer that is not TLS. Which of them depends on the version of OpenSSL.
var noTLSPhrases = []string{"wrong_version_number", "wrong version number", "record_layer_failure", "record layer failure", "packet_length_too_long", "packet length too long"}

// failedTLSPhrases are of whatever else Python says of TLS: who makes that fail has answered. slowTLSPhrases are of what it says of TLS if
// nobody has.
var (
	failedTLSPhrases = []string{"sslerror(", "[ssl:", "[ssl]"}
	slowTLSPhrases   = []string{"sslerror( * timed out"}
)

// brokenTLSPhrases are what Python says of a server that ends the connection while TLS begins.
var brokenTLSPhrases = []string{"eof occurred in violation of protocol", "unexpected_eof_while_reading", "ssleoferror", "sslzeroreturnerror"}

// badAnswerPhrases are what Python says of an answer over HTTP that leads nowhere, or that it cannot read to its end.
var badAnswerPhrases = []string{". error: exceeded * redirects", "but failed to decode it", "badstatusline(", "linetoolong(", "incompleteread(", "invalidchunklength(", "response ended prematurely"}

// bmcPhrases are what errors have that Ironic makes when it calls a BMC.
var bmcPhrases = []string{
	"redfish connection failed", "redfish exception occurred", "unable to connect to http://", "unable to connect to https://", "drac operation failed", "failed to get power state for node",
	"failed to change power state", "failed to set node power state", "during sync_power_state", "setting power state to", "redfish set boot device failed",
	"http get", "http post", "http patch", "virtual media mount failed", "bmc clock verify step failed",
}

// valuePhrases are what BMCs say of a property or its value, in the words of Redfish's own messages or in other ones. What else they say of a
// change is not about what was asked for.
var valuePhrases = []string{
	"propertyvaluenotinlist", "propertyvalueformaterror", "propertyvaluetypeerror", "propertyvalueincorrect", "propertyvalueerror", "propertyvalueoutofrange", "propertyvalueconflict",
	"propertynotwritable", "propertyreadonly", "propertyunknown", "not in the list of", "read only", "read-only", "not writable", "invalid value", "value is invalid", "value is not valid", "not supported",
}

// aboutValue returns the phrases of errors that begin with one, and in which the BMC says something of a value.
func aboutValue(failed string) (phrases []string) {
	for _, says := range valuePhrases {
		phrases = append(phrases, failed+" * "+says)
	}
	return phrases
}

// unreachableHelp is for a BMC that does not answer.
const unreachableHelp = "Check that {address} is right, that the BMC is plugged in and answers, and that no firewall is between Ironic and it. The server tries again by itself."

// The meanings that several kinds of texts have.
var (
	bmcCredentials = Meaning{"BMCCredentials", "The BMC refuses the credentials.",
		"Correct the user name or the password in {secret}. The host goes on at once after that, or, if Ironic has put its node into maintenance meanwhile, within minutes."}
	bmcPasswordExpired = Meaning{"BMCPasswordExpired", "The BMC wants the password of its user changed before anything else.",
		"Change the password of that user at the BMC at {address}, and then in {secret}."}
	bmcNotPermitted = Meaning{"BMCNotPermitted", "The BMC does not permit its user to do that.",
		"Give the user of {secret} the role or privilege level of an administrator at the BMC, or name another user. Some BMCs also answer this way while an account is locked."}
	bmcName = Meaning{"BMCName", "The host name of the BMC cannot be resolved.",
		"Correct {address}, or have the DNS of Ironic know the name."}
	virtualMediaFailed = Meaning{"VirtualMediaFailed", "The BMC could not mount the image in its virtual drive.",
		"Check that the BMC at {address} reaches the web server of Ironic that the error names, and, for https, trusts its certificate."}
	bmcAddress = Meaning{bmcAddressInvalid, "Ironic does not accept the address of the BMC.",
		"Correct spec.bmc.address: the host is an IP address, or a DNS name. Since 33.0, Ironic takes no underscore in the first part of a name for IPMI."}
	bmcUnreachable = Meaning{"BMCUnreachable", "The BMC does not answer.", unreachableHelp}
	bmcCharacters  = Meaning{"BMCCharacters", "The user name or the password of the BMC has a character that cannot be sent to it.",
		"Correct {secret}: quotes and dashes may have become typographic ones when it was pasted. If the password really has such a character, give the user another one at the BMC."}
	bmcNoSession = Meaning{bmcWithoutSessions, "The BMC opens no session for Redfish.",
		"Correct the credentials in {secret}, and check that the BMC has a session to spare: it may have to be reset."}
	bmcNoSystem = Meaning{"BMCNoSystem", "The BMC answers, but has no System at the path in spec.bmc.address.",
		"Correct the path in {address}: it is that of a System, such as /redfish/v1/Systems/1, and never of a Manager. The BMC lists its Systems at /redfish/v1/Systems."}
)

// ipmiFailed is the kind of an IPMI command that has failed, ipmiBootTimeout and ipmiBootDevice those of two commands that not all BMCs take,
// and bmcWithoutSessions that of a BMC that lets its user in no further.
const (
	ipmiFailed         Kind = "IPMIFailed"
	ipmiBootTimeout    Kind = "IPMIBootTimeout"
	ipmiBootDevice     Kind = "IPMIBootDevice"
	bmcWithoutSessions Kind = "BMCWithoutSessions"
)

// The kinds of what keeps Ironic from talking to a BMC that is there.
const (
	bmcCertificate    Kind = "BMCCertificate"
	bmcWithoutTLS     Kind = "BMCWithoutTLS"
	bmcOldTLS         Kind = "BMCOldTLS"
	bmcFailedTLS      Kind = "BMCFailedTLS"
	bmcNotOneSystem   Kind = "BMCNotOneSystem"
	bmcAddressInvalid Kind = "BMCAddressInvalid"
	bmcClock          Kind = "BMCClock"
)

// RefusesUser reports whether the BMC has answered, and has refused its user. Many BMCs lock an account after a few refusals, and keep it
// locked for as long as somebody goes on trying.
func (m Meaning) RefusesUser() bool {
	return slices.Contains([]Kind{bmcCredentials.Kind, bmcPasswordExpired.Kind, bmcNotPermitted.Kind, bmcCharacters.Kind, bmcWithoutSessions}, m.Kind)
}

// MayRefuseUser reports whether it is not known if the BMC has refused its user or has not answered: what ipmitool says of that, Ironic
// does not pass on.
func (m Meaning) MayRefuseUser() bool { return m.Kind == ipmiFailed }

// IsNoAccess reports whether the BMC is there, but Ironic gets nowhere with it until somebody has changed one of the two, or the address.
func (m Meaning) IsNoAccess() bool {
	return slices.Contains([]Kind{bmcCertificate, bmcWithoutTLS, bmcOldTLS, bmcFailedTLS, bmcAddressInvalid, bmcClock}, m.Kind)
}

// RefusesCommand reports whether the BMC takes other commands, but not this one. (Before it sets a boot device, Ironic switches the machine or
// asks for its power state, and at a BMC that is silent, or refuses the user, that fails already.)
func (m Meaning) RefusesCommand() bool { return m.Kind == ipmiBootTimeout || m.Kind == ipmiBootDevice }

// noSystem is what sushy says of a System that is not there. Other resources of the BMC may be missing, too.
var noSystem = regexp.MustCompile(`resource \S*/redfish/v1/systems/[^/\s]+/? not found`)

// missing is what sushy says of any resource that is not there, where Ironic has that from sushy itself: a BMC may say the like of an image.
var missing = regexp.MustCompile(`\. error: resource https?://[^/\s]+(/\S+) not found`)

// isNoSystem reports whether an error, in lower case, is that the System of the host is not there. What a BMC itself lists is below /redfish/v1,
// so that a path elsewhere comes from the address.
func isNoSystem(text string) bool {
	if noSystem.MatchString(text) {
		return true
	}
	match := missing.FindStringSubmatch(text)
	return match != nil && !strings.HasPrefix(match[1]+"/", "/redfish/v1/") && hasAny(text, bmcPhrases)
}

// bmcAnswerRules are of what only a BMC answers, or only Ironic says of one.
var bmcAnswerRules = []rule{
	{bmcNoSystem, []string{"answered 404 for the system",
		// Each System has this attribute, and nothing else has.
		"the attribute boot is missing from the resource /redfish/v1/managers/", "the attribute boot is missing from the resource /redfish/v1/chassis/"}},
	{Meaning{bmcNotOneSystem, "The BMC has no System, or several, and spec.bmc.address names none of them.",
		"The BMC lists its Systems at /redfish/v1/Systems. If there are several, add the path of one to {address}, such as /redfish/v1/Systems/1. If there is none, the BMC may still be starting: the server tries again by itself."},
		[]string{"system count is not exactly one"}},
	{bmcCharacters, []string{"verify step * 'latin-1' codec can't encode"}},
	{bmcCredentials, []string{"rakp 2 hmac is invalid", "unauthorized name", "invalid user name", "incorrect password"}},
	{bmcNotPermitted, []string{"insufficient privilege level", "requested privilege level exceeds limit"}},
	{bmcName, []string{"address lookup for"}},
	// Set System Boot Options, by its number: the parameter 3 has to be set before each boot device, unless Ironic is told to leave that out,
	// and the parameter 5 is the boot device, if the boot mode is UEFI. Otherwise, ipmitool has a name for that.
	{Meaning{ipmiBootTimeout, "The BMC has not taken the IPMI command that keeps the boot device from timing out.",
		"That is no matter of the credentials. Some BMCs do not know the command: have Ironic leave it out, with `openstack baremetal node set --driver-info ipmi_disable_boot_timeout=false` and the node, or with [ipmi]disable_boot_timeout for all. Or use redfish:// in spec.bmc.address."},
		[]string{"ipmi call failed: raw 0x00 0x08 0x03"}},
	{Meaning{ipmiBootDevice, "The BMC has not taken the IPMI command that sets the boot device.",
		"That is no matter of the credentials. Reset the BMC at {address}, or update its firmware; or use redfish:// in spec.bmc.address, if the BMC has that."},
		[]string{"ipmi call failed: raw 0x00 0x08", "ipmi call failed: chassis bootdev"}},
	{Meaning{ipmiFailed, "An IPMI command to the BMC has failed.",
		"Ironic does not say why ipmitool has failed. Check that {address} is right and answers at its UDP port, that IPMI over LAN is enabled in the BMC, and the credentials in {secret}: IPMI takes a user name of at most 16 bytes, and a password of at most 20."},
		[]string{"ipmi call failed", "command '['ipmitool' * timed out", "unable to establish ipmi", "unable to establish lan session", "get auth capabilities error", "error issuing get channel authentication capabilities"}},
	{bmcAddress, []string{"invalid redfish address", "invalid ipmi address"}},
	{bmcNoSession, []string{"no x-auth-token returned"}},
	{Meaning{"NoVirtualMedia", "The BMC has no virtual drive that Ironic can use.",
		"Check the license and the firmware of the BMC, and that nobody else uses its virtual media; or have the machine boot from the network, with redfish:// in spec.bmc.address."},
		[]string{"no suitable virtual media device", "no suitable virtual usb slot", "virtual media is detached"}},
	{Meaning{"VirtualMediaInUse", "The virtual drive of the BMC is in use.",
		"Eject what is in it at the BMC at {address}: a person's session or another Ironic may have put it there. If it shows nothing, reset the BMC."},
		[]string{"virtual media image server is already connected", "vrm0012"}},
}

// bmcConnectionRules are of a connection to a BMC.
var bmcConnectionRules = []rule{
	{Meaning{"BMCLicense", "The BMC lacks a license for this.",
		"Install the license that the error names on the BMC at {address}, or use a driver that does not need it."},
		[]string{"not licensed to perform", "oemlicensenotpassed", "licensekeyrequired", "no sufficient license", "required license is missing or expired", "lic501"}},
	proxyRule,
	{bmcPasswordExpired, []string{"passwordchangerequired", "the password provided for this account must be changed"}},
	{Meaning{"BMCJobPending", "A job at the BMC has not run yet, and keeps it from taking another change.",
		"Have the job run by a reboot of the machine, or delete the jobs at the BMC at {address}, for example by the clean step management.clear_job_queue."},
		[]string{"pending configuration values are already committed", "sys011"}},
	// An answer to this moment, whatever Ironic was about to change. (Ironic and sushy repeat some requests for it, but not for long.)
	{Meaning{"BMCNotReady", "The BMC cannot do this now: the machine starts, or the BMC does.",
		"The server tries again by itself, and nothing in the spec has to be changed. If it lasts, look at the console of the machine, which may wait for somebody in its firmware, or reset the BMC at {address}."},
		[]string{"unabletomodifyduringsystempost", "is not ready. the configuration values cannot be accessed", "swc0700", "sys518",
			"servicetemporarilyunavailable", "serviceshuttingdown", "resourceinstandby"}},
	{bmcCharacters, []string{"'latin-1' codec can't encode"}},
	{Meaning{"BMCSessionsUsedUp", "The BMC has no session to spare for Redfish.",
		"Close sessions at the BMC at {address}: those of people and of other tools count, too. It ends idle ones after some time, and all of them when it is reset. The server tries again by itself."},
		[]string{"sessionlimitexceeded", "maximum number of user sessions", "number of simultaneous sessions exceeding"}},
	{bmcCredentials, []string{"returned code 401", "http 401", "status code 401", "401 unauthorized", "invalid username or password"}},
	{bmcNotPermitted, []string{"returned code 403", "http 403", "status code 403", "insufficient privilege", "insufficientprivilege"}},
	// Some BMCs answer wrong credentials in this way. (Unless Ironic is told to use sessions only, it then tries them without one.)
	{bmcNoSession, []string{"http post * /sessions returned code 400", "http post * /sessions/ returned code 400"}},
	{Meaning{"BMCPrecondition", "The BMC refuses a change, because its ETag is missing, or taken for another version's.",
		"The server tries again by itself. If it lasts, update the firmware of the BMC at {address}, or Ironic."},
		[]string{"returned code 412", "returned code 428", "preconditionfailed", "preconditionrequired"}},
	{Meaning{"VirtualMediaNotSupported", "The BMC does not know the request that inserts virtual media.",
		"Update Ironic or the firmware of the BMC at {address}, or use the driver of its maker, such as idrac-virtualmedia:// for Dell; or have the machine boot from the network, with redfish:// in spec.bmc.address."},
		[]string{"virtual media mount failed * returned code 405", "virtual media mount failed * returned code 501", "virtual media mount failed * sys402",
			"virtual media mount failed * actionparametermissing", "virtual media mount failed * propertymissing"}},
	// What the BMC says is about its own connection to Ironic's web server.
	{virtualMediaFailed, []string{"virtual media mount failed * returned code"}},
	{Meaning{"BMCWithoutRedfish", "Something answers at the address of the BMC, but has no Redfish.",
		"Check that {address} is the address and the port of the BMC, and that Redfish is enabled there. If it has none, use ipmi://."},
		[]string{"/redfish/v1/ not found", "/redfish/v1 not found"}},
	// sushy says that it is unable to connect whenever there is no answer that it can use.
	{bmcAddress, []string{". error: failed to parse: ", ". error: invalid url ", ". error: url has an invalid label", ". error: no connection adapters were found"}},
	// Python's words for an answer that is no JSON, such as an HTML page, or not even HTTP. sushy does not say whose answer
	// that was.
	{Meaning{"BMCNotJSON", "What answers at the address of the BMC has answered otherwise than Redfish does.",
		"Check that {address} is the address and the port of the BMC, that Redfish is enabled there, and that no proxy answers in its place. A BMC may also answer like this while it starts. The server tries again by itself."},
		append([]string{". error: expecting value: line", "verify step failed: expecting value: line"}, badAnswerPhrases...)},
	{Meaning{bmcCertificate, "Ironic does not trust the certificate of the BMC.",
		"Install one on the BMC at {address} that is trusted, or set spec.bmc.disableCertificateVerification."},
		certificatePhrases},
	{Meaning{bmcWithoutTLS, "The BMC does not speak TLS at this port.",
		"Correct the port in {address}, or use redfish+http:// if the BMC has no TLS."},
		append([]string{"http_request"}, noTLSPhrases...)},
	{Meaning{bmcOldTLS, "Ironic and the BMC have no version of TLS in common that both accept.",
		"Update the firmware of the BMC at {address}, or have Ironic accept older versions and keys."},
		[]string{"unsupported_protocol", "unsupported protocol", "handshake failure", "handshake_failure", "alert protocol version", "dh_key_too_small", "dh key too small", "unsafe_legacy_renegotiation_disabled"}},
	{Meaning{"BMCEndsTLS", "The BMC ends the connection while TLS begins.",
		"Check that {address} has the port at which the BMC speaks TLS. If it has, update its firmware, or have Ironic accept older versions and ciphers; a BMC that is overloaded may need a reset."},
		brokenTLSPhrases},
	{bmcUnreachable, slowTLSPhrases},
	{Meaning{bmcFailedTLS, "No TLS connection to the BMC is possible.",
		"The end of the error says why, in the words of OpenSSL. Check that {address} has the port at which the BMC speaks TLS, and look at its certificate, versions and ciphers; update its firmware."},
		failedTLSPhrases},
	{bmcName, namePhrases},
	{virtualMediaFailed, []string{"virtual media mount failed"}},
	{Meaning{"BMCError", "The BMC reports an error of its own.",
		"The server tries again by itself. If it lasts, reset the BMC at {address} or update its firmware."},
		[]string{"returned code 500", "returned code 502", "returned code 503", "returned code 504", "internal service error", "internalerror"}},
	{bmcUnreachable, connectionPhrases},
}

// bmcOutcomeRules are of what has failed, if it is not said why.
var bmcOutcomeRules = []rule{
	// Ironic checks it while it registers a machine, since 31.0, if it is told to. What keeps Ironic from that may also be the connection.
	{Meaning{bmcClock, "Ironic accepts the clock of the BMC only if it is right to a second, and could not set it.",
		"Correct the clock of the BMC at {address}, or the NTP server by which the BMC goes: while it goes by one, nobody else can set its clock. Or the administrator of Ironic can switch that check off: [redfish]enable_verify_bmc_clock."},
		[]string{"bmc clock verify step failed"}},
	// Ironic looks for volumes at each storage controller, also at those that have none, such as a processor's.
	{Meaning{"ControllerWithoutVolumes", "A storage controller of the machine has no volumes, and this release of Ironic fails for that.",
		"Update Ironic, or remove spec.raid if the machine needs no volumes."},
		[]string{"the attribute volumes/@odata.id is missing"}},
	{Meaning{"BMCIncomplete", "The Redfish of the BMC lacks something that Ironic needs.",
		"Update the firmware of the BMC at {address}, or use another driver, such as ipmi://."},
		[]string{"the attribute * is missing from the resource", "the action * is missing from the resource", "the redfish chassis was not found", "resource http:// * not found", "resource https:// * not found"}},
	{Meaning{"BootModeNotSet", "The BMC has not set the boot mode.",
		"Set spec.bootMode to the one that the machine has, or change it in the firmware of the machine."},
		append([]string{"waiting for boot mode of node", "boot mode is not allowed", "unsupported boot mode"}, aboutValue("setting boot mode to")...)},
	{Meaning{"BootModeRefused", "The BMC has not set the boot mode, and does not say that it is the wrong one.",
		"The end of the error has the words of the BMC. If it lasts, reset the BMC at {address}, or update its firmware. Only if the machine boots otherwise than spec.bootMode says, change that."},
		[]string{"setting boot mode to"}},
	// sushy asks the BMC first which it has.
	{Meaning{"BootDeviceNotOffered", "The BMC does not offer the boot device that Ironic has asked for.",
		"The error names that, and those that the BMC offers. If it is PXE, enable network boot in the firmware settings of the machine, or use virtual media, such as redfish-virtualmedia:// in spec.bmc.address. If it is CD or UEFI_HTTP, use an address that needs none of these, such as redfish://."},
		[]string{"redfish set boot device failed * the parameter \"target\" value * is invalid. valid values are"}},
	{Meaning{"BootDeviceNotSet", "The BMC has not set the boot device.",
		"If it lasts, reset the BMC at {address} or update its firmware."},
		[]string{"redfish set boot device failed"}},
	{Meaning{"PowerLost", "Ironic can no longer read the power state from the BMC.", unreachableHelp},
		[]string{"during sync_power_state, max retries exceeded"}},
	{Meaning{"PowerNotReached", "The machine did not reach the power state in time.",
		"Look at the console of the machine and at the log of the BMC. Where only a soft power-off was tried, a hard one may help: kubectl bmh power off {host} --mode hard"},
		[]string{"failed to set node power state to"}},
}
