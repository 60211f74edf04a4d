// RocketMQ's gRPC client for Java as a producer: ENDPOINTS TOPIC COUNT [through | SECONDS [recall]].
// ENDPOINTS behind `default:` are used as the client is made: it begins with TLS.
// With `through` it sends until a line comes in; a send that fails is told and tried again.
// With SECONDS each message is to be there so much later, and 1.3 s more for each before it; with
// `recall` every second one is recalled.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;

public class GrpcProducer {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    public static void main(String[] words) throws Exception {
        var configuring =
                ClientConfiguration.newBuilder()
                        .setEndpoints(words[0].replace("default:", ""))
                        .setRequestTimeout(Duration.ofSeconds(20)); // 3 s are few on busy cores
        if (!words[0].startsWith("default:")) {
            configuring.enableSsl(false);
        }
        ClientConfiguration configuration = configuring.build();
        Producer producer =
                PROVIDER.newProducerBuilder()
                        .setClientConfiguration(configuration)
                        .setTopics(words[1])
                        .build();
        if (words.length > 3 && !words[3].equals("through")) {
            for (int number = 0; number < Integer.parseInt(words[2]); number++) {
                long later = Long.parseLong(words[3]) * 1_000 + number * 1_300;
                delayed(producer, words[1], number, later, words.length > 4 && number % 2 == 1);
            }
        } else if (words.length > 3) {
            through(producer, words[1]);
        } else {
            int count = Integer.parseInt(words[2]);
            for (int number = 0; number < count; number++) {
                send(producer, words[1], number, number % 2 == 0 ? null : "group-" + number % 4);
            }
        }
        producer.close();
        System.out.println("@{\"done\": true}");
        System.exit(0);
    }

    static void send(Producer producer, String topic, int number, String group) throws Exception {
        String body = "java-" + number;
        var building =
                PROVIDER.newMessageBuilder()
                        .setTopic(topic)
                        .setBody(body.getBytes(StandardCharsets.UTF_8))
                        .setTag("tag" + number % 2)
                        .setKeys("key-" + number)
                        .addProperty("colour", "gr\u00fcn");
        if (group != null) {
            building.setMessageGroup(group);
        }
        Message message = building.build();
        SendReceipt receipt = producer.send(message);
        System.out.println(
                "@{\"sent\": \"" + body + "\", \"id\": \"" + receipt.getMessageId() + "\"}");
    }

    static void delayed(Producer producer, String topic, int number, long later, boolean recalls)
            throws Exception {
        String body = "late-" + number;
        long at = System.currentTimeMillis() + later;
        SendReceipt receipt =
                producer.send(
                        PROVIDER.newMessageBuilder()
                                .setTopic(topic)
                                .setBody(body.getBytes(StandardCharsets.UTF_8))
                                .setDeliveryTimestamp(at)
                                .build());
        String more = "";
        if (recalls) {
            var recalled = producer.recallMessage(topic, receipt.getRecallHandle()).getMessageId();
            boolean isIt = recalled.toString().equals(receipt.getMessageId().toString());
            more = ", \"recalled\": " + isIt;
        }
        System.out.println("@{\"sent\": \"" + body + "\", \"at\": " + at + more + "}");
    }

    static void through(Producer producer, String topic) throws Exception {
        AtomicBoolean isOver = new AtomicBoolean();
        Thread reading =
                new Thread(
                        () -> {
                            try {
                                System.in.read();
                            } catch (java.io.IOException error) {
                                System.err.println(error);
                            }
                            isOver.set(true);
                        });
        reading.setDaemon(true);
        reading.start();
        for (int number = 0; !isOver.get(); number++) {
            try {
                send(producer, topic, number, null);
            } catch (Exception error) {
                System.out.println("@{\"failed\": true}");
                Thread.sleep(100);
            }
        }
    }
}
