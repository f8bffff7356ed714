package main

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// plainCodec hands messages over as bytes. It takes the place of "proto", so that the content type is the usual one.
type plainCodec struct{}

func (plainCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (plainCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (plainCodec) Name() string { return "proto" }

func init() { encoding.RegisterCodecV2(plainCodec{}) }

// encode makes a Payload: metadata = 2 {type = 3, clientIp = 8}, body = 3 {value = 2}.
func encode(kind string, body string) []byte {
	metadata := protowire.AppendTag(nil, 3, protowire.BytesType)
	metadata = protowire.AppendString(metadata, kind)
	metadata = protowire.AppendTag(metadata, 8, protowire.BytesType)
	metadata = protowire.AppendString(metadata, "127.0.0.1")
	value := protowire.AppendTag(nil, 2, protowire.BytesType)
	value = protowire.AppendString(value, body)
	out := protowire.AppendTag(nil, 2, protowire.BytesType)
	out = protowire.AppendBytes(out, metadata)
	out = protowire.AppendTag(out, 3, protowire.BytesType)
	return protowire.AppendBytes(out, value)
}

// field returns the bytes of the last field with this number, nil without one.
func field(message []byte, number protowire.Number) []byte {
	var found []byte
	for len(message) > 0 {
		at, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil
		}
		message = message[size:]
		if kind == protowire.BytesType {
			value, size := protowire.ConsumeBytes(message)
			if size < 0 {
				return nil
			}
			if at == number {
				found = value
			}
			message = message[size:]
			continue
		}
		size = protowire.ConsumeFieldValue(at, kind, message)
		if size < 0 {
			return nil
		}
		message = message[size:]
	}
	return found
}

// decode returns the type of a Payload and its JSON.
func decode(message []byte) (string, []byte) {
	return string(field(field(message, 2), 3)), field(field(message, 3), 2)
}

// textOf returns the text of a JSON field that holds no escapes.
func textOf(body []byte, name string) string {
	_, rest, found := bytes.Cut(body, []byte(`"`+name+`":"`))
	if !found {
		return ""
	}
	text, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(text)
}

func isSuccess(body []byte) bool {
	return bytes.Contains(body, []byte(`"resultCode":200`))
}
