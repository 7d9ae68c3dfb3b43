// Command franz runs one franz-go script against a cluster and says what it saw as JSON.
//
//	franz SCRIPT BOOTSTRAP TOPIC
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const records = 100

type script func(ctx context.Context, bootstrap, topic string) (any, error)

var scripts = map[string]script{
	"produce-consume": produceConsume,
	"group":           group,
	"spread":          spread,
	"admin":           admin,
}

func main() {
	if len(os.Args) != 4 {
		fail(errors.New("usage: franz SCRIPT BOOTSTRAP TOPIC"))
	}
	run, known := scripts[os.Args[1]]
	if !known {
		fail(fmt.Errorf("no such script: %s", os.Args[1]))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	seen, err := run(ctx, os.Args[2], os.Args[3])
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// produceConsume writes with every codec through an idempotent producer, and reads all of it back.
func produceConsume(ctx context.Context, bootstrap, topic string) (any, error) {
	if err := create(ctx, bootstrap, topic, 1); err != nil {
		return nil, err
	}
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for _, codec := range codecs {
		if err := produce(ctx, bootstrap, topic, kgo.ProducerBatchCompression(codec)); err != nil {
			return nil, err
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	got, err := consume(ctx, client, records*len(codecs))
	if err != nil {
		return nil, err
	}
	inOrder := true
	for index, record := range got {
		inOrder = inOrder && record.Offset == int64(index) &&
			string(record.Value) == fmt.Sprintf("value-%d", index%records) &&
			len(record.Headers) == 1
	}
	return map[string]any{"records": len(got), "in order": inOrder}, nil
}

// group reads half as one member, commits, and goes on as another.
func group(ctx context.Context, bootstrap, topic string) (any, error) {
	if err := create(ctx, bootstrap, topic, 1); err != nil {
		return nil, err
	}
	if err := produce(ctx, bootstrap, topic); err != nil {
		return nil, err
	}
	var firsts []int64
	for range 2 {
		first, err := memberReads(ctx, bootstrap, topic, records/2)
		if err != nil {
			return nil, err
		}
		firsts = append(firsts, first)
	}
	return map[string]any{"first offsets": firsts}, nil
}

// spread writes to every partition in turn, and a group reads all of it.
func spread(ctx context.Context, bootstrap, topic string) (any, error) {
	everywhere := kgo.RecordPartitioner(kgo.RoundRobinPartitioner())
	if err := produce(ctx, bootstrap, topic, everywhere); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(topic+"-group"),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	got, err := consume(ctx, client, records)
	if err != nil {
		return nil, err
	}
	values, partitions := map[string]bool{}, map[int32]bool{}
	for _, record := range got {
		values[string(record.Value)] = true
		partitions[record.Partition] = true
	}
	return map[string]any{"values": len(values), "partitions": len(partitions)}, nil
}

func memberReads(ctx context.Context, bootstrap, topic string, count int) (int64, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(topic+"-group"),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	got, err := consume(ctx, client, count)
	if err != nil {
		return 0, err
	}
	if err := client.CommitRecords(ctx, got[:count]...); err != nil {
		return 0, err
	}
	return got[0].Offset, client.LeaveGroupContext(ctx)
}

// admin goes through the life of a topic and reports what each step gave.
func admin(ctx context.Context, bootstrap, topic string) (any, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	if err := create(ctx, bootstrap, topic, 2); err != nil {
		return nil, err
	}
	again := create(ctx, bootstrap, topic, 2)
	if err := produce(ctx, bootstrap, topic); err != nil {
		return nil, err
	}
	if _, err := adm.UpdatePartitions(ctx, 4, topic); err != nil {
		return nil, err
	}
	value := "60000"
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}
	if _, err := adm.AlterTopicConfigs(ctx, change, topic); err != nil {
		return nil, err
	}
	listed, retention, err := settled(ctx, adm, topic, 4, value)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	var total int64
	ends.Each(func(offset kadm.ListedOffset) { total += offset.Offset })
	deleted, err := adm.DeleteTopic(ctx, topic)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"made twice": errors.Is(again, kerr.TopicAlreadyExists),
		"partitions": listed,
		"records":    total,
		"retention":  retention,
		"deleted":    deleted.Err == nil,
	}, nil
}

// settled waits until the cluster tells of both changes: Kafka does so a moment after it made them.
func settled(
	ctx context.Context, adm *kadm.Client, topic string, partitions int, retention string,
) (int, string, error) {
	for {
		listed, err := adm.ListTopics(ctx, topic)
		if err != nil {
			return 0, "", err
		}
		found, err := setting(ctx, adm, topic, "retention.ms")
		if err != nil {
			return 0, "", err
		}
		if len(listed[topic].Partitions) == partitions && found == retention {
			return partitions, found, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func setting(ctx context.Context, adm *kadm.Client, topic, name string) (string, error) {
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	described, err := configs.On(topic, nil)
	if err != nil {
		return "", err
	}
	for _, config := range described.Configs {
		if config.Key == name {
			return config.MaybeValue(), nil
		}
	}
	return "", nil
}

func create(ctx context.Context, bootstrap, topic string, partitions int32) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	made, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, topic)
	if err != nil {
		return err
	}
	return made.Err
}

func produce(ctx context.Context, bootstrap, topic string, options ...kgo.Opt) error {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	if err != nil {
		return err
	}
	defer client.Close()
	batch := make([]*kgo.Record, records)
	for index := range batch {
		batch[index] = &kgo.Record{
			Topic:   topic,
			Key:     []byte("key"),
			Value:   fmt.Appendf(nil, "value-%d", index),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}},
		}
	}
	return client.ProduceSync(ctx, batch...).FirstErr()
}

func consume(ctx context.Context, client *kgo.Client, count int) ([]*kgo.Record, error) {
	var got []*kgo.Record
	for len(got) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		got = append(got, fetches.Records()...)
	}
	return got, nil
}
