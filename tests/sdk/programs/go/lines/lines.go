// Package lines reads commands and prints answers and events; program.py has the shape of all lines.
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Group is that of all services.
const Group = "DEFAULT_GROUP"

// Command is a line of the input; which fields count depends on the first.
type Command struct {
	Op        string            `json:"op"`
	Client    string            `json:"client"`
	Servers   []string          `json:"servers"`
	Namespace string            `json:"namespace"`
	Username  string            `json:"username"`
	Password  string            `json:"password"`
	Service   string            `json:"service"`
	Ip        string            `json:"ip"`
	Port      uint64            `json:"port"`
	Cluster   string            `json:"cluster"`
	Weight    float64           `json:"weight"`
	Metadata  map[string]string `json:"metadata"`
	Instances []struct {
		Ip   string `json:"ip"`
		Port uint64 `json:"port"`
	} `json:"instances"`
}

// State is what may change of an instance.
type State struct {
	Weight   float64
	Metadata map[string]string
}

var output sync.Mutex

func put(line map[string]interface{}) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

// Serve answers every command until the input ends.
func Serve(answer func(Command) (interface{}, error)) {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var c Command
		if err := json.Unmarshal(input.Bytes(), &c); err != nil {
			panic(err)
		}
		if result, err := answer(c); err != nil {
			put(map[string]interface{}{"error": err.Error()})
		} else {
			put(map[string]interface{}{"result": result})
		}
	}
}

// Split returns host and port of a server.
func Split(server string) (string, uint64, error) {
	host, port, _ := strings.Cut(server, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	return host, number, err
}

// Where is the name of an instance.
func Where(ip string, port uint64) string {
	return fmt.Sprintf("%s:%d", ip, port)
}

// Events returns what is to be called with all instances of a service each time; it tells what is new in them.
func Events(client string, service string) func(map[string]State) {
	var lock sync.Mutex
	known := map[string]State{}
	tell := func(event string, instance string) {
		put(map[string]interface{}{"event": event, "client": client, "service": service, "instance": instance})
	}
	return func(now map[string]State) {
		lock.Lock()
		defer lock.Unlock()
		for where, state := range now {
			if before, ok := known[where]; !ok {
				tell("added", where)
			} else if !reflect.DeepEqual(before, state) {
				tell("changed", where)
			}
		}
		for where := range known {
			if _, ok := now[where]; !ok {
				tell("removed", where)
			}
		}
		known = now
	}
}
