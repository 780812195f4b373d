package baremetalhost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	apiruntime "k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// While replicas of two versions run, as during an upgrade, the older one serves hosts whose records it does
// not know. What users write through it must not remove what it has not decoded. So the record of a later epoch is kept
// as it is in etcd, and written back unchanged.

// storedRecord is as much of a stored host as is about its record.
type storedRecord struct {
	Status struct {
		Record json.RawMessage `json:"record"`
	} `json:"status"`
}

// keepLaterRecord keeps the record of a host, whose JSON is data, if it is of a later epoch.
func keepLaterRecord(host *metal3.BareMetalHost, data []byte) error {
	if host.Status.Record.Epoch <= metal3.RecordEpoch {
		return nil
	}
	var stored storedRecord
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	host.Status.Record.Later = bytes.Clone(stored.Status.Record)
	return nil
}

// checkRecordable returns an error if a later version has recorded the host: nothing can be changed in its record here, so what a
// user asks for would be forgotten.
func checkRecordable(host *metal3.BareMetalHost) error {
	if host.Status.Record.Epoch <= metal3.RecordEpoch {
		return nil
	}
	return serviceUnavailable(host.Name, fmt.Sprintf(
		"a later version of the server has recorded this host (epoch %d; this one knows those up to %d), and this replica cannot add the request to that: try again, a replica of the later version will accept it",
		host.Status.Record.Epoch, metal3.RecordEpoch))
}

// hasHardware tells whether the record of a later version, in JSON, has the packed hardware details of the host.
func hasHardware(record []byte) bool {
	var stored struct {
		Hardware json.RawMessage `json:"hardware"`
	}
	return json.Unmarshal(record, &stored) == nil && stored.Hardware != nil
}

// Encode encodes an object for etcd.
func (c upgradingCodec) Encode(obj apiruntime.Object, w io.Writer) error {
	host, ok := obj.(*metal3.BareMetalHost)
	if !ok || host.Status.Record.Later == nil {
		return c.Codec.Encode(obj, w)
	}
	var encoded bytes.Buffer
	if err := c.Codec.Encode(obj, &encoded); err != nil {
		return err
	}
	var fields, status map[string]json.RawMessage
	if err := json.Unmarshal(encoded.Bytes(), &fields); err != nil {
		return fmt.Errorf("encoding host %s/%s with the record of a later version: %w", host.Namespace, host.Name, err)
	}
	if err := json.Unmarshal(fields["status"], &status); err != nil {
		return fmt.Errorf("encoding the status of host %s/%s with the record of a later version: %w", host.Namespace, host.Name, err)
	}
	status["record"] = host.Status.Record.Later
	var err error
	if fields["status"], err = json.Marshal(status); err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(fields)
}
