// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	eventServicePath  = "/redfish/v1/EventService"
	subscriptionsPath = eventServicePath + "/Subscriptions"
)

// Subscription is a subscription to the events of a BMC.
type Subscription struct {
	ID          string
	Destination string
	Protocol    string
	Context     string
	EventTypes  []string
	HTTPHeaders []map[string]string `json:"HttpHeaders"`
}

// Subscriptions returns the subscriptions that the BMC has, in the order in which they were created.
func (m *Machine) Subscriptions() []Subscription { return cloned(m, &m.subscriptions) }

// ForgetSubscriptions deletes all subscriptions, as many BMCs do when they are reset.
func (m *Machine) ForgetSubscriptions() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscriptions = nil
}

// SendEvent has the BMC send an event to the destinations of all subscriptions.
func (m *Machine) SendEvent(ctx context.Context, message string) error {
	var failed []error
	for _, s := range m.Subscriptions() {
		body, err := json.Marshal(object{"Context": s.Context, "Events": []object{{"EventType": "Alert", "Message": message}}})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Destination, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		for _, header := range s.HTTPHeaders {
			for name, value := range header {
				request.Header.Set(name, value)
			}
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil && response.StatusCode/100 != 2 {
			err = fmt.Errorf("%s answered %s", s.Destination, response.Status)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		_ = response.Body.Close()
	}
	return errors.Join(failed...)
}

func (m *Machine) eventService() object {
	return resource(eventServicePath, "EventService", object{
		"ServiceEnabled": true, "Status": enabled, "EventTypesForSubscription": []string{"Alert", "StatusChange"},
		"Subscriptions": link(subscriptionsPath),
		"Actions":       object{"#EventService.SubmitTestEvent": object{"target": eventServicePath + "/Actions/EventService.SubmitTestEvent"}},
	})
}

func (m *Machine) subscriptionCollection() object {
	paths := []string{}
	for _, s := range m.Subscriptions() {
		paths = append(paths, subscriptionsPath+"/"+s.ID)
	}
	return collectionOf(subscriptionsPath, paths)
}

func (m *Machine) postSubscription(w http.ResponseWriter, r *http.Request) {
	var s Subscription
	if !body(w, r, &s) {
		return
	}
	if s.Destination == "" || s.Protocol == "" {
		fail(w, http.StatusBadRequest, "Base.1.0.PropertyMissing", "A subscription needs Destination and Protocol.")
		return
	}
	m.mu.Lock()
	m.lastSubscription++
	s.ID = strconv.Itoa(m.lastSubscription)
	m.subscriptions = append(m.subscriptions, s)
	m.mu.Unlock()
	w.Header().Set("Location", subscriptionsPath+"/"+s.ID)
	respond(w, http.StatusCreated, s.resource())
}

// resource leaves out the headers: a BMC does not give them away.
func (s Subscription) resource() object {
	return resource(subscriptionsPath+"/"+s.ID, "Subscription "+s.ID, object{
		"Destination": s.Destination, "Protocol": s.Protocol, "Context": s.Context, "EventTypes": s.EventTypes,
	})
}

func (m *Machine) getSubscription(w http.ResponseWriter, r *http.Request) {
	for _, s := range m.Subscriptions() {
		if s.ID == r.PathValue("id") {
			respond(w, http.StatusOK, s.resource())
			return
		}
	}
	noSubscription(w, r)
}

func (m *Machine) deleteSubscription(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	before := len(m.subscriptions)
	m.subscriptions = slices.DeleteFunc(m.subscriptions, func(s Subscription) bool { return s.ID == r.PathValue("id") })
	found := len(m.subscriptions) < before
	m.mu.Unlock()
	if !found {
		noSubscription(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func noSubscription(w http.ResponseWriter, r *http.Request) {
	fail(w, http.StatusNotFound, "Base.1.0.ResourceMissingAtURI", "There is no subscription at "+r.URL.Path+".")
}
