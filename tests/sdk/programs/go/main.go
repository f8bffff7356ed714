// Does with nacos-sdk-go what the lines on its input say; program.py has the shape of all lines.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/nacos-group/nacos-sdk-go/clients"
	"github.com/nacos-group/nacos-sdk-go/clients/naming_client"
	"github.com/nacos-group/nacos-sdk-go/common/constant"
	"github.com/nacos-group/nacos-sdk-go/model"
	"github.com/nacos-group/nacos-sdk-go/vo"
)

const group = "DEFAULT_GROUP"

type command struct {
	Op       string            `json:"op"`
	Client   string            `json:"client"`
	Servers  []string          `json:"servers"`
	Service  string            `json:"service"`
	Ip       string            `json:"ip"`
	Port     uint64            `json:"port"`
	Cluster  string            `json:"cluster"`
	Weight   float64           `json:"weight"`
	Metadata map[string]string `json:"metadata"`
}

type client struct {
	naming     naming_client.INamingClient
	registered map[string]vo.DeregisterInstanceParam
}

type state struct {
	weight   float64
	metadata map[string]string
}

var (
	output      sync.Mutex
	clientsOpen = map[string]*client{}
)

func put(line map[string]interface{}) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

func open(servers []string) (*client, error) {
	var configs []constant.ServerConfig
	for _, server := range servers {
		host, port, _ := strings.Cut(server, ":")
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, err
		}
		configs = append(configs, *constant.NewServerConfig(host, number))
	}
	// An empty list is passed on too, instead of being ignored.
	config := constant.NewClientConfig(
		constant.WithTimeoutMs(5000),
		constant.WithNotLoadCacheAtStart(true),
		constant.WithUpdateCacheWhenEmpty(true),
		constant.WithLogDir("log"),
		constant.WithCacheDir("cache"),
		constant.WithLogLevel("warn"),
	)
	naming, err := clients.NewNamingClient(vo.NacosClientParam{ClientConfig: config, ServerConfigs: configs})
	return &client{naming, map[string]vo.DeregisterInstanceParam{}}, err
}

func (one *client) run(c command) (interface{}, error) {
	removal := vo.DeregisterInstanceParam{
		Ip: c.Ip, Port: c.Port, Cluster: c.Cluster, ServiceName: c.Service, GroupName: group, Ephemeral: true,
	}
	switch c.Op {
	case "register":
		one.registered[c.Service+c.Ip] = removal
		return one.naming.RegisterInstance(vo.RegisterInstanceParam{
			Ip: c.Ip, Port: c.Port, Weight: c.Weight, Enable: true, Healthy: true, Metadata: c.Metadata,
			ClusterName: c.Cluster, ServiceName: c.Service, GroupName: group, Ephemeral: true,
		})
	case "change":
		return one.naming.UpdateInstance(vo.UpdateInstanceParam{
			Ip: c.Ip, Port: c.Port, Weight: c.Weight, Enable: true, Metadata: c.Metadata,
			ClusterName: c.Cluster, ServiceName: c.Service, GroupName: group, Ephemeral: true,
		})
	case "deregister":
		delete(one.registered, c.Service+c.Ip)
		return one.naming.DeregisterInstance(removal)
	case "list":
		service, err := one.naming.GetService(vo.GetServiceParam{ServiceName: c.Service, GroupName: group})
		return append([]model.Instance{}, service.Hosts...), err
	case "subscribe":
		return true, one.subscribe(c.Client, c.Service)
	case "close":
		// The library ends its beats only with the registration.
		for _, each := range one.registered {
			if _, err := one.naming.DeregisterInstance(each); err != nil {
				return nil, err
			}
		}
		delete(clientsOpen, c.Client)
		return true, nil
	}
	return nil, fmt.Errorf("unknown: %s", c.Op)
}

// The library gives its listener all instances each time, and an error with none.
func (one *client) subscribe(name string, service string) error {
	var lock sync.Mutex
	known := map[string]state{}
	tell := func(event string, instance string) {
		put(map[string]interface{}{"event": event, "client": name, "service": service, "instance": instance})
	}
	return one.naming.Subscribe(&vo.SubscribeParam{
		ServiceName: service,
		GroupName:   group,
		SubscribeCallback: func(hosts []model.SubscribeService, _ error) {
			lock.Lock()
			defer lock.Unlock()
			now := map[string]state{}
			for _, host := range hosts {
				where := fmt.Sprintf("%s:%d", host.Ip, host.Port)
				now[where] = state{host.Weight, host.Metadata}
				if before, ok := known[where]; !ok {
					tell("added", where)
				} else if !reflect.DeepEqual(before, now[where]) {
					tell("changed", where)
				}
			}
			for where := range known {
				if _, ok := now[where]; !ok {
					tell("removed", where)
				}
			}
			known = now
		},
	})
}

func answer(c command) (interface{}, error) {
	if c.Op == "open" {
		one, err := open(c.Servers)
		clientsOpen[c.Client] = one
		return true, err
	}
	return clientsOpen[c.Client].run(c)
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var c command
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
