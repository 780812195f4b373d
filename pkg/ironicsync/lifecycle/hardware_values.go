// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// The functions of this file convert single values of an inventory. Ramdisks and BMCs have sent numbers as texts and the
// other way round, so both are taken if it is clear what is meant.

var errUnreadable = errors.New("the value has another type or is out of range")

// toText takes numbers, too, as those of serial numbers and versions.
func toText(value json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, nil
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil {
		return number.String(), nil
	}
	return "", errUnreadable
}

// toCount takes numbers up to 2^31-1, which is what all clients can decode. A fraction is left out.
func toCount(value json.RawMessage) (int, error) {
	n, err := toWhole(value)
	if err != nil || n > math.MaxInt32 {
		return 0, errUnreadable
	}
	return int(n), nil
}

// toWhole takes numbers from 0 to 2^63-1. An empty text says nothing.
func toWhole(value json.RawMessage) (int64, error) {
	text, err := toText(value)
	if err != nil {
		return 0, err
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	number, err := parseNumber(text)
	if err != nil || number >= 1<<63 {
		return 0, errUnreadable
	}
	return int64(number), nil
}

// toNumber takes numbers from 0 to 2^31-1.
func toNumber(value json.RawMessage) (float64, error) {
	text, err := toText(value)
	if err != nil {
		return 0, err
	}
	number, err := parseNumber(text)
	if err != nil || number > math.MaxInt32 {
		return 0, errUnreadable
	}
	return number, nil
}

// parseNumber takes what JSON can represent, and nothing negative.
func parseNumber(text string) (float64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) || number < 0 {
		return 0, errUnreadable
	}
	return number, nil
}

func toBool(value json.RawMessage) (bool, error) {
	text := string(value)
	if strings.HasPrefix(text, `"`) {
		var err error
		if text, err = toText(value); err != nil {
			return false, err
		}
	}
	if text = strings.TrimSpace(text); text == "" {
		return false, nil
	}
	return strconv.ParseBool(text)
}

// archPattern is that of the names of architectures. What is found becomes spec.architecture.
var archPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,32}$`)

func toArch(value json.RawMessage) (string, error) {
	text, err := toText(value)
	if text = strings.TrimSpace(text); err != nil || !archPattern.MatchString(text) {
		return "", errUnreadable
	}
	return text, nil
}

// toIP keeps the zone of a link-local address, as in fe80::1%eth0.
func toIP(value json.RawMessage) (string, error) {
	text, err := toText(value)
	if text = strings.TrimSpace(text); err != nil || text == "" {
		return "", err
	}
	_, err = netip.ParseAddr(text)
	return text, err
}

// toMAC takes the addresses that parseMAC does.
func toMAC(value json.RawMessage) (string, error) {
	text, err := toText(value)
	if err != nil {
		return "", err
	}
	return parseMAC(text)
}

// toBootMAC takes what PXELINUX says, too: the type of the hardware, and the address behind it, as in
// 01-52-54-00-11-22-33.
func toBootMAC(value json.RawMessage) (string, error) {
	text, err := toText(value)
	if err != nil {
		return "", err
	}
	if mac, err := parseMAC(text); err == nil {
		return mac, nil
	}
	_, address, _ := strings.Cut(text, "-")
	if address == "" {
		return "", errUnreadable
	}
	return parseMAC(address)
}

// parseMAC takes addresses of Ethernet (6 octets), Fibre Channel (8) and InfiniBand (20), however they are written, and returns
// them with colons and in lower case, as Ironic does.
func parseMAC(text string) (string, error) {
	if text = strings.TrimSpace(text); text == "" {
		return "", nil
	}
	address, err := hex.DecodeString(strings.NewReplacer(":", "", "-", "", ".", "").Replace(text))
	if err != nil {
		return "", err
	}
	switch len(address) {
	case 6, 8, 20:
		return net.HardwareAddr(address).String(), nil
	}
	return "", errUnreadable
}
