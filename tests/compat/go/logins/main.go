// Writes records to a topic and reads them back by franz-go, with one way to log in.
//
//	logins -bootstrap HOST:PORT -ca FILE [-mechanism NAME ...] [-certificate FILE -key FILE] TOPIC
//
// It prints what it read, a line for each record; or why it was refused, and ends with 1.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const records = 20

var (
	bootstrap   = flag.String("bootstrap", "", "HOST:PORT")
	authority   = flag.String("ca", "", "certificate of the authority")
	certificate = flag.String("certificate", "", "of the client")
	key         = flag.String("key", "", "of the client")
	mechanism   = flag.String("mechanism", "", "of SASL")
	user        = flag.String("user", "", "or the id of a delegation token")
	password    = flag.String("password", "", "or a token")
	isToken     = flag.Bool("delegation", false, "log in by a delegation token")
	seconds     = flag.Int("seconds", 30, "give up after")
)

func chosen() (sasl.Mechanism, error) {
	byScram := scram.Auth{User: *user, Pass: *password, IsToken: *isToken}
	switch *mechanism {
	case "PLAIN":
		return plain.Auth{User: *user, Pass: *password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return byScram.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return byScram.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: *password}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("no mechanism %q", *mechanism)
}

func overTLS() (*tls.Config, error) {
	pem, err := os.ReadFile(*authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate of an authority")
	}
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		if err != nil {
			return nil, err
		}
		// The pair itself, whatever authorities the node names: it has to refuse by itself.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &pair, nil
		}
	}
	return config, nil
}

func run(ctx context.Context, topic string) error {
	config, err := overTLS()
	if err != nil {
		return err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(*bootstrap),
		kgo.DialTLSConfig(config),
		kgo.DefaultProduceTopic(topic),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if *mechanism != "" {
		way, err := chosen()
		if err != nil {
			return err
		}
		options = append(options, kgo.SASL(way))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	for number := range records {
		record := kgo.StringRecord(fmt.Sprintf("w%d", number))
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	for count := 0; count < records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			count++
		})
	}
	return nil
}

func main() {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
	defer cancel()
	if err := run(ctx, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		cancel()
		os.Exit(1)
	}
}
