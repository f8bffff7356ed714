// Does with nacos-sdk-go what the lines on its input say.
package main

import (
	"fmt"
	"strings"

	"github.com/nacos-group/nacos-sdk-go/clients"
	"github.com/nacos-group/nacos-sdk-go/clients/naming_client"
	"github.com/nacos-group/nacos-sdk-go/common/constant"
	"github.com/nacos-group/nacos-sdk-go/model"
	"github.com/nacos-group/nacos-sdk-go/vo"
	"rollcall.tests/client/lines"
)

type client struct {
	naming     naming_client.INamingClient
	registered map[string]vo.DeregisterInstanceParam
}

var clientsOpen = map[string]*client{}

func open(c lines.Command) (*client, error) {
	var configs []constant.ServerConfig
	for _, server := range c.Servers {
		scheme := "http"
		if strings.HasPrefix(server, "https://") {
			scheme = "https"
		}
		host, port, err := lines.Split(strings.TrimPrefix(server, "https://"))
		if err != nil {
			return nil, err
		}
		configs = append(configs, *constant.NewServerConfig(host, port, constant.WithScheme(scheme)))
	}
	// An empty list is passed on too, instead of being ignored.
	config := constant.NewClientConfig(
		constant.WithNamespaceId(c.Namespace),
		constant.WithUsername(c.Username),
		constant.WithPassword(c.Password),
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

func (one *client) run(c lines.Command) (interface{}, error) {
	removal := vo.DeregisterInstanceParam{
		Ip: c.Ip, Port: c.Port, Cluster: c.Cluster, ServiceName: c.Service, GroupName: lines.Group, Ephemeral: true,
	}
	switch c.Op {
	case "register":
		one.registered[c.Service+c.Ip] = removal
		return one.naming.RegisterInstance(vo.RegisterInstanceParam{
			Ip: c.Ip, Port: c.Port, Weight: c.Weight, Enable: true, Healthy: true, Metadata: c.Metadata,
			ClusterName: c.Cluster, ServiceName: c.Service, GroupName: lines.Group, Ephemeral: true,
		})
	case "change":
		return one.naming.UpdateInstance(vo.UpdateInstanceParam{
			Ip: c.Ip, Port: c.Port, Weight: c.Weight, Enable: true, Metadata: c.Metadata,
			ClusterName: c.Cluster, ServiceName: c.Service, GroupName: lines.Group, Ephemeral: true,
		})
	case "deregister":
		delete(one.registered, c.Service+c.Ip)
		return one.naming.DeregisterInstance(removal)
	case "list":
		service, err := one.naming.GetService(vo.GetServiceParam{ServiceName: c.Service, GroupName: lines.Group})
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
	events := lines.Events(name, service)
	return one.naming.Subscribe(&vo.SubscribeParam{
		ServiceName: service,
		GroupName:   lines.Group,
		SubscribeCallback: func(hosts []model.SubscribeService, _ error) {
			now := map[string]lines.State{}
			for _, host := range hosts {
				now[lines.Where(host.Ip, host.Port)] = lines.State{Weight: host.Weight, Metadata: host.Metadata}
			}
			events(now)
		},
	})
}

func main() {
	lines.Serve(func(c lines.Command) (interface{}, error) {
		if c.Op == "open" {
			one, err := open(c)
			clientsOpen[c.Client] = one
			return true, err
		}
		return clientsOpen[c.Client].run(c)
	})
}
