// Does with nacos-sdk-go v2, over gRPC, what the lines on its input say.
package main

import (
	"fmt"

	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/naming_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/model"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
	"rollcall.tests/client/lines"
)

type client struct {
	naming naming_client.INamingClient
}

var clientsOpen = map[string]*client{}

func open(c lines.Command) (*client, error) {
	var configs []constant.ServerConfig
	for _, server := range c.Servers {
		host, port, err := lines.Split(server)
		if err != nil {
			return nil, err
		}
		configs = append(configs, *constant.NewServerConfig(host, port))
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
	return &client{naming}, err
}

func (one *client) run(c lines.Command) (interface{}, error) {
	removal := vo.DeregisterInstanceParam{
		Ip: c.Ip, Port: c.Port, Cluster: c.Cluster, ServiceName: c.Service, GroupName: lines.Group, Ephemeral: true,
	}
	switch c.Op {
	case "register":
		return one.naming.RegisterInstance(vo.RegisterInstanceParam{
			Ip: c.Ip, Port: c.Port, Weight: c.Weight, Enable: true, Healthy: true, Metadata: c.Metadata,
			ClusterName: c.Cluster, ServiceName: c.Service, GroupName: lines.Group, Ephemeral: true,
		})
	case "batch":
		var each []vo.RegisterInstanceParam
		for _, one := range c.Instances {
			each = append(each, vo.RegisterInstanceParam{
				Ip: one.Ip, Port: one.Port, Weight: 1, Enable: true, Healthy: true, ClusterName: "DEFAULT", Ephemeral: true,
			})
		}
		return one.naming.BatchRegisterInstance(vo.BatchRegisterInstanceParam{
			ServiceName: c.Service, GroupName: lines.Group, Instances: each,
		})
	case "change":
		return one.naming.UpdateInstance(vo.UpdateInstanceParam{
			Ip: c.Ip, Port: c.Port, Weight: c.Weight, Enable: true, Metadata: c.Metadata,
			ClusterName: c.Cluster, ServiceName: c.Service, GroupName: lines.Group, Ephemeral: true,
		})
	case "deregister":
		return one.naming.DeregisterInstance(removal)
	case "list":
		service, err := one.naming.GetService(vo.GetServiceParam{ServiceName: c.Service, GroupName: lines.Group})
		return append([]model.Instance{}, service.Hosts...), err
	case "select":
		chosen, err := one.naming.SelectOneHealthyInstance(vo.SelectOneHealthInstanceParam{
			ServiceName: c.Service, GroupName: lines.Group,
		})
		if err != nil {
			return nil, err
		}
		return lines.Where(chosen.Ip, chosen.Port), nil
	case "services":
		found, err := one.naming.GetAllServicesInfo(vo.GetAllServiceInfoParam{
			GroupName: lines.Group, PageNo: 1, PageSize: 100,
		})
		return append([]string{}, found.Doms...), err
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
	events := lines.Events(name, service)
	return one.naming.Subscribe(&vo.SubscribeParam{
		ServiceName: service,
		GroupName:   lines.Group,
		SubscribeCallback: func(hosts []model.Instance, _ error) {
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
