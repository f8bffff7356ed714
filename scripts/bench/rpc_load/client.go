package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	callTimeout   = 10 * time.Second
	setupTimeout  = 20 * time.Second
	setupPoll     = 20 * time.Millisecond
	requestMethod = "/Request/request"
	streamMethod  = "/BiRequestStream/requestBiStream"
	readBuffer    = 4 << 10
	setupBody     = `{"headers":{},"requestId":"","clientVersion":"Nacos-Go-Client:v2.3.2","tenant":"",` +
		`"labels":{"AppName":"load","module":"naming","source":"sdk"},"clientAbilities":{}}`
)

var (
	healthCheck = encode("HealthCheckRequest", `{"headers":{},"requestId":"","module":"internal"}`)
	streamDesc  = grpc.StreamDesc{StreamName: "requestBiStream", ClientStreams: true, ServerStreams: true}
)

// client is one connection, as an SDK has it.
type client struct {
	number     int
	connection *grpc.ClientConn
	stream     grpc.ClientStream
	told       atomic.Pointer[string] // the mark of the last change that it was told
	toldAt     atomic.Int64           // nanoseconds since the change began
}

// dial makes the connection; it comes from the given address, if that is not empty.
func dial(ctx context.Context, number int, target string, source string) (*client, error) {
	dialer := net.Dialer{}
	if source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	connection, err := grpc.NewClient(
		"passthrough:///"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}),
		grpc.WithReadBufferSize(readBuffer),
		grpc.WithSharedWriteBuffer(true),
		grpc.WithIdleTimeout(0),
		grpc.WithUserAgent("grpc-go"),
	)
	if err != nil {
		return nil, err
	}
	return &client{number: number, connection: connection}, nil
}

// call returns the type of the answer and its JSON.
func (c *client) call(ctx context.Context, message []byte) (string, []byte, error) {
	var answer []byte
	if err := c.connection.Invoke(ctx, requestMethod, message, &answer); err != nil {
		return "", nil, err
	}
	kind, body := decode(answer)
	return kind, body, nil
}

func (c *client) mustCall(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kind, body, err := c.call(ctx, message)
	if err == nil && !isSuccess(body) {
		err = fmt.Errorf("%s %.200s", kind, body)
	}
	return err
}

// setUp goes through what an SDK does before its first request.
func (c *client) setUp(ctx context.Context, load *load) error {
	if err := c.mustCall(ctx, encode("ServerCheckRequest", `{"headers":{},"requestId":"","module":"internal"}`)); err != nil {
		return fmt.Errorf("server check: %w", err)
	}
	stream, err := c.connection.NewStream(ctx, &streamDesc, streamMethod)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	c.stream = stream
	if err := stream.SendMsg(encode("ConnectionSetupRequest", setupBody)); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	go c.listen(load)
	// Nothing says that the setup is done: SDKs wait 100 ms.
	for begun := time.Now(); ; time.Sleep(setupPoll) {
		if err = c.mustCall(ctx, healthCheck); err == nil {
			return nil
		}
		if time.Since(begun) > setupTimeout {
			return fmt.Errorf("not set up in time: %w", err)
		}
	}
}

func (c *client) subscribe(ctx context.Context, service string) error {
	body := fmt.Sprintf(`{"headers":{},"requestId":"","namespace":"public","serviceName":"%s","groupName":"DEFAULT_GROUP",`+
		`"module":"naming","subscribe":true,"clusters":""}`, service)
	return c.mustCall(ctx, encode("SubscribeServiceRequest", body))
}

// listen answers all that comes on the stream, until it ends.
func (c *client) listen(load *load) {
	for {
		var message []byte
		if err := c.stream.RecvMsg(&message); err != nil {
			if !errors.Is(c.stream.Context().Err(), context.Canceled) {
				load.streamsEnded.Add(1)
			}
			return
		}
		kind, body := decode(message)
		answer, isKnown := answers[kind]
		if !isKnown {
			continue // the answer to nothing, or of a later release
		}
		change := load.change.Load()
		isNews := kind == "NotifySubscriberRequest" && change != nil && bytes.Contains(body, change.mark)
		if isNews {
			isNews = change.told(c)
		}
		reply := fmt.Sprintf(`{"resultCode":200,"errorCode":0,"success":true,"message":"","requestId":"%s"}`, textOf(body, "requestId"))
		if err := c.stream.SendMsg(encode(answer, reply)); err != nil {
			load.failed.Add(1)
		} else if isNews {
			change.acknowledged()
		}
	}
}

var answers = map[string]string{
	"NotifySubscriberRequest": "NotifySubscriberResponse",
	"ClientDetectionRequest":  "ClientDetectionResponse",
	"ConnectResetRequest":     "ConnectResetResponse",
}

func instanceOf(ip string, port int, mark string) string {
	return fmt.Sprintf(`{"instanceId":"","ip":"%s","port":%d,"weight":1,"healthy":true,"enabled":true,"ephemeral":true,`+
		`"clusterName":"DEFAULT","serviceName":"","metadata":{"n":"%s"},"instanceHeartBeatInterval":0,"ipDeleteTimeout":0,`+
		`"instanceHeartBeatTimeOut":0}`, ip, port, mark)
}

func namingRequest(kind string, service string, rest string) []byte {
	return encode(kind, fmt.Sprintf(`{"headers":{},"requestId":"","namespace":"public","serviceName":"%s",`+
		`"groupName":"DEFAULT_GROUP","module":"naming",%s}`, service, rest))
}

func instanceRequest(verb string, service string, ip string, mark string) []byte {
	return namingRequest("InstanceRequest", service, `"type":"`+verb+`","instance":`+instanceOf(ip, 8080, mark))
}

func batchRequest(service string, client int, mark string) []byte {
	instances := make([]string, batchSize)
	for number := range instances {
		instances[number] = instanceOf(fmt.Sprintf("10.%d.%d.%d", 100+client/250, client%250, number+1), 8080, mark)
	}
	return namingRequest("BatchInstanceRequest", service,
		`"type":"batchRegisterInstance","instances":[`+strings.Join(instances, ",")+`]`)
}

func queryRequest(service string) []byte {
	body := fmt.Sprintf(`{"headers":{},"requestId":"","namespace":"public","serviceName":"%s","groupName":"DEFAULT_GROUP",`+
		`"module":"naming","cluster":"","healthyOnly":false,"udpPort":0}`, service)
	return encode("ServiceQueryRequest", body)
}
