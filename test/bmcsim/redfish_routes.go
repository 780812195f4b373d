// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// routes returns a handler for the Redfish service.
func (b *bmc) routes() http.Handler {
	m, mux := b.machine, http.NewServeMux()
	// Each resource is available with and without a trailing slash.
	handle := func(method, path string, h http.HandlerFunc) {
		mux.HandleFunc(method+" "+path, h)
		if !strings.HasSuffix(path, "}") {
			mux.HandleFunc(method+" "+path+"/{$}", h)
		}
	}
	get := func(path string, f func() object) {
		handle(http.MethodGet, path, func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, f()) })
	}
	collection := func(path string, members ...string) { get(path, func() object { return collectionOf(path, members) }) }
	// A change is refused if the resource has changed since the client read it.
	patch := func(path string, current func() object, h http.HandlerFunc) {
		get(path, current)
		handle(http.MethodPatch, path, func(w http.ResponseWriter, r *http.Request) {
			content, _ := json.Marshal(current()) // of strings, numbers and booleans
			if match := r.Header.Get("If-Match"); match != "" && match != "*" && match != etag(content) {
				fail(w, http.StatusPreconditionFailed, "Base.1.0.PreconditionFailed", "The resource was changed in the meantime.")
				return
			}
			h(w, r)
		})
	}
	post := func(path string, h http.HandlerFunc) { handle(http.MethodPost, path, h) }

	get("/redfish", func() object { return object{"v1": "/redfish/v1/"} })
	get("/redfish/v1", m.serviceRoot)
	get("/redfish/v1/SessionService", func() object {
		return resource("/redfish/v1/SessionService", "SessionService", object{
			"ServiceEnabled": true, "SessionTimeout": 600, "Sessions": link(sessionsPath),
		})
	})
	collection(sessionsPath)
	post(sessionsPath, b.createSession)
	handle(http.MethodDelete, sessionsPath+"/{id}", b.deleteSession)

	system := m.SystemID()
	collection("/redfish/v1/Systems", system)
	patch(system, m.system, m.patchSystem)
	post(system+"/Actions/ComputerSystem.Reset", m.postReset)
	patch(system+"/Bios", m.biosResource, notSettable)
	patch(system+"/Bios/Settings", m.biosSettings, m.patchBIOS)
	post(system+"/Bios/Actions/Bios.ResetBios", m.resetBIOS)
	patch(system+"/SecureBoot", m.secureBootResource, m.patchSecureBoot)
	for path, r := range m.hardware.resources(system) {
		get(path, func() object { return r })
	}

	m.storageRoutes(get, handle)

	manager := managerPath(m)
	collection("/redfish/v1/Managers", manager)
	get(manager, m.manager)
	collection("/redfish/v1/Chassis", chassisPath(m))
	patch(chassisPath(m), m.chassis, m.patchChassis)
	drives := []string{}
	for _, name := range mediaNames {
		drives = append(drives, manager+"/VirtualMedia/"+name)
	}
	collection(manager+"/VirtualMedia", drives...)
	for i, name := range mediaNames {
		get(drives[i], func() object { return m.virtualMedia(name) })
		post(drives[i]+"/Actions/VirtualMedia.InsertMedia", func(w http.ResponseWriter, r *http.Request) { m.insertMedia(w, r, name) })
		post(drives[i]+"/Actions/VirtualMedia.EjectMedia", func(w http.ResponseWriter, r *http.Request) { m.ejectMedia(w, name) })
	}
	collection(chassisPath(m)+"/NetworkAdapters", chassisPath(m)+"/NetworkAdapters/"+nicID)
	get(chassisPath(m)+"/NetworkAdapters/"+nicID, m.networkAdapter)

	get(updateServicePath, updateService)
	post(updateServicePath+"/Actions/UpdateService.SimpleUpdate", m.simpleUpdate)
	inventory := []string{}
	for _, id := range slices.Sorted(maps.Keys(inventoryIDs)) {
		path := updateServicePath + "/FirmwareInventory/" + id
		inventory = append(inventory, path)
		get(path, func() object { return m.firmwareInventory(id) })
	}
	collection(updateServicePath+"/FirmwareInventory", inventory...)
	get("/redfish/v1/TaskService", taskService)
	get(tasksPath, m.taskCollection)
	handle(http.MethodGet, tasksPath+"/{id}", m.getTask)

	get(eventServicePath, m.eventService)
	get(subscriptionsPath, m.subscriptionCollection)
	post(subscriptionsPath, m.postSubscription)
	handle(http.MethodGet, subscriptionsPath+"/{id}", m.getSubscription)
	handle(http.MethodDelete, subscriptionsPath+"/{id}", m.deleteSubscription)
	collection("/redfish/v1/Registries", registryFilePath)
	get(registryFilePath, biosRegistryFile)
	get(registryFilePath+".json", biosRegistry)

	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "Base.1.0.ResourceMissingAtURI", "There is nothing at "+r.URL.Path+".")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if message, fails := m.fault(PartsFail); fails && slices.ContainsFunc(failingParts, func(part string) bool { return strings.Contains(r.URL.Path, part) }) {
			fail(w, http.StatusInternalServerError, "Base.1.0.InternalError", message)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// failingParts are in the paths of what fails with PartsFail.
var failingParts = []string{"/Bios", "/Registries", "/UpdateService", "/Storage", "/NetworkAdapters", "/SecureBoot", "/VirtualMedia", "/EventService"}

func (m *Machine) serviceRoot() object {
	return resource("/redfish/v1/", "RootService", object{
		"RedfishVersion": "1.15.0", "Product": "bmcsim",
		"Systems": link("/redfish/v1/Systems"), "Managers": link("/redfish/v1/Managers"), "Chassis": link("/redfish/v1/Chassis"),
		"Registries": link("/redfish/v1/Registries"), "SessionService": link("/redfish/v1/SessionService"),
		"UpdateService": link(updateServicePath), "Tasks": link("/redfish/v1/TaskService"),
		"EventService": link(eventServicePath),
		"Links":        object{"Sessions": link(sessionsPath)},
	})
}

func notSettable(w http.ResponseWriter, r *http.Request) {
	fail(w, http.StatusMethodNotAllowed, "Base.1.0.OperationNotAllowed", "Change "+r.URL.Path+"/Settings instead.")
}

func link(path string) object { return object{"@odata.id": path} }

func links(paths ...string) []object {
	all := make([]object, 0, len(paths))
	for _, p := range paths {
		all = append(all, link(p))
	}
	return all
}

// resource adds the fields that all resources have.
func resource(path, name string, fields object) object {
	fields["@odata.id"], fields["Name"] = path, name
	if _, ok := fields["Id"]; !ok {
		fields["Id"] = path[strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')+1:]
	}
	return fields
}

func collectionOf(path string, members []string) object {
	return resource(path, "Collection", object{"Members": links(members...), "Members@odata.count": len(members)})
}
