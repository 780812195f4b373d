// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"net/http"
	"strconv"
)

const tasksPath = "/redfish/v1/TaskService/Tasks"

// bmcTask is a Redfish Task, which a client polls until it has ended. Its fields are guarded by
// Machine.mu.
type bmcTask struct {
	id     string
	name   string
	state  string // a Redfish TaskState
	status string // OK or Critical
	// message is in the list of messages when the task has ended. Ironic shows it if the task has failed.
	message string
	// asked is called once when somebody has been told how far the task is; nil does nothing. Machine.mu is
	// held then.
	asked func()
}

// The TaskStates that tasks have. A task that is taskStarting waits for a reset of the machine: one that is Running
// does not, for Ironic 39, if it is about a network adapter.
const (
	taskNew       = "New"
	taskStarting  = "Starting"
	taskCompleted = "Completed"
	taskException = "Exception"
)

// addTask adds a task. m.mu must be held.
func (m *Machine) addTask(name string) *bmcTask {
	m.tasksMade++
	t := &bmcTask{id: strconv.Itoa(m.tasksMade), name: name, state: taskNew, status: "OK"}
	m.tasks = append(m.tasks, t)
	return t
}

// end ends a task, which fails unless err is nil. Machine.mu must be held.
func (t *bmcTask) end(err error) {
	t.state, t.message = taskCompleted, "The task has completed successfully."
	if err != nil {
		t.state, t.status, t.message = taskException, "Critical", err.Error()
	}
}

func (t *bmcTask) ended() bool { return t.state == taskCompleted || t.state == taskException }

func (t *bmcTask) path() string { return tasksPath + "/" + t.id }

func (t *bmcTask) resource() object {
	percent, messages := 0, []object{}
	if t.ended() {
		percent = 100
		messages = append(messages, object{"MessageId": "Task.1.0.Message", "Message": t.message})
	}
	return resource(t.path(), t.name, object{
		"TaskState": t.state, "TaskStatus": t.status, "PercentComplete": percent, "Messages": messages, "TaskMonitor": t.path(),
	})
}

// accepted answers a request that a task completes later. m.mu must be held.
func (t *bmcTask) accepted(w http.ResponseWriter) {
	w.Header().Set("Location", t.path())
	respond(w, http.StatusAccepted, t.resource())
}

// getTask answers 202 until the task has ended, because Ironic 29.0 uses the status code of the task
// monitor, and Ironic 39 the TaskState.
func (m *Machine) getTask(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tasks {
		if t.id != r.PathValue("id") {
			continue
		}
		code := http.StatusAccepted
		if t.ended() {
			code = http.StatusOK
		}
		respond(w, code, t.resource())
		if asked := t.asked; asked != nil {
			t.asked = nil
			asked()
		}
		return
	}
	fail(w, http.StatusNotFound, "Base.1.0.ResourceMissingAtURI", "There is no task at "+r.URL.Path+".")
}

func (m *Machine) taskCollection() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	var paths []string
	for _, t := range m.tasks {
		paths = append(paths, t.path())
	}
	return collectionOf(tasksPath, paths)
}

func taskService() object {
	return resource("/redfish/v1/TaskService", "TaskService", object{"ServiceEnabled": true, "Tasks": link(tasksPath)})
}

// atReset calls change with the next reset of the machine and ends the task with its result. m.mu must be
// held, and is held when change is called.
func (m *Machine) atReset(t *bmcTask, change func() error) {
	t.state = taskStarting
	m.pending = append(m.pending, func() { t.end(change()) })
}
