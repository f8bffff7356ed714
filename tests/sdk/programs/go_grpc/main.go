// Does with nacos-sdk-go v2, over gRPC, what the lines on its input say; program.py has the shape of all lines.
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

	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/naming_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/model"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
)

const group = "DEFAULT_GROUP"

type command struct {
	Op        string            `json:"op"`
	Client    string            `json:"client"`
	Servers   []string          `json:"servers"`
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

type client struct {
	naming naming_client.INamingClient
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
	return &client{naming}, err
}

func (one *client) run(c command) (interface{}, error) {
	removal := vo.DeregisterInstanceParam{
		Ip: c.Ip, Port: c.Port, Cluster: c.Cluster, ServiceName: c.Service, GroupName: group, Ephemeral: true,
	}
	switch c.Op {
	case "register":
		return one.naming.RegisterInstance(vo.RegisterInstanceParam{
			Ip: c.Ip, Port: c.Port, Weight: c.Weight, Enable: true, Healthy: true, Metadata: c.Metadata,
			ClusterName: c.Cluster, ServiceName: c.Service, GroupName: group, Ephemeral: true,
		})
	case "batch":
		var each []vo.RegisterInstanceParam
		for _, one := range c.Instances {
			each = append(each, vo.RegisterInstanceParam{
				Ip: one.Ip, Port: one.Port, Weight: 1, Enable: true, Healthy: true, ClusterName: "DEFAULT", Ephemeral: true,
			})
		}
		return one.naming.BatchRegisterInstance(vo.BatchRegisterInstanceParam{
			ServiceName: c.Service, GroupName: group, Instances: each,
		})
	case "change":
		return one.naming.UpdateInstance(vo.UpdateInstanceParam{
			Ip: c.Ip, Port: c.Port, Weight: c.Weight, Enable: true, Metadata: c.Metadata,
			ClusterName: c.Cluster, ServiceName: c.Service, GroupName: group, Ephemeral: true,
		})
	case "deregister":
		return one.naming.DeregisterInstance(removal)
	case "list":
		service, err := one.naming.GetService(vo.GetServiceParam{ServiceName: c.Service, GroupName: group})
		return append([]model.Instance{}, service.Hosts...), err
	case "subscribe":
		return true, one.subscribe(c.Client, c.Service)
	case "close":
		one.naming.CloseClient()
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
		SubscribeCallback: func(hosts []model.Instance, _ error) {
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
