// Kafka's stock producer, for tests/compat/test_client_metrics.py: it pushes its metrics.
//
//   ADDRESS CLIENT TOPIC COUNT
//
// Sends so many records once it knows what it is asked for, flushes, says "sent", and closes when a
// line comes in.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class MetricsProducer {
    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("client.id", words[1]);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.clientInstanceId(Duration.ofMinutes(1));
            byte[] value = "value".getBytes(StandardCharsets.UTF_8);
            for (int sent = 0; sent < Integer.parseInt(words[3]); sent++) {
                producer.send(new ProducerRecord<>(words[2], value));
            }
            producer.flush();
            System.out.println("sent");
            System.in.read();
        }
    }
}
