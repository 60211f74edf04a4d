// RocketMQ's gRPC client for Java with access keys: ENDPOINTS TOPIC USER SECRET COUNT TLS.
//
// Sends so many, receives and acknowledges them as a simple consumer; tells what was done, or why not.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

public class GrpcSigned {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    public static void main(String[] words) {
        int count = Integer.parseInt(words[4]);
        ClientConfigurationBuilder building =
                ClientConfiguration.newBuilder()
                        .setEndpoints(words[0])
                        .enableSsl(Boolean.parseBoolean(words[5]))
                        .setRequestTimeout(Duration.ofSeconds(20)); // 3 s are few on busy cores
        if (!words[2].isEmpty()) {
            building.setCredentialProvider(
                    new StaticSessionCredentialsProvider(words[2], words[3]));
        }
        ClientConfiguration configuration = building.build();
        try (Producer producer =
                        PROVIDER.newProducerBuilder()
                                .setClientConfiguration(configuration)
                                .setTopics(words[1])
                                .build();
                SimpleConsumer consumer =
                        PROVIDER.newSimpleConsumerBuilder()
                                .setClientConfiguration(configuration)
                                .setConsumerGroup("readers")
                                .setAwaitDuration(Duration.ofSeconds(2))
                                .setSubscriptionExpressions(
                                        Collections.singletonMap(words[1], FilterExpression.SUB_ALL))
                                .build()) {
            for (int number = 0; number < count; number++) {
                byte[] body = ("ü" + number).getBytes(StandardCharsets.UTF_8);
                producer.send(
                        PROVIDER.newMessageBuilder().setTopic(words[1]).setBody(body).build());
                tell("\"sent\": " + number);
            }
            for (int left = count; left > 0; ) {
                for (MessageView one : consumer.receive(16, Duration.ofSeconds(30))) {
                    consumer.ack(one);
                    left--;
                    tell("\"body\": \"" + StandardCharsets.UTF_8.decode(one.getBody()) + "\"");
                }
            }
            tell("\"done\": true");
        } catch (Throwable failed) {
            Throwable cause = failed;
            StringBuilder names = new StringBuilder();
            for (; cause != null; cause = cause.getCause()) {
                names.append(cause.getClass().getSimpleName()).append(' ');
            }
            tell("\"failed\": \"" + names.toString().trim() + "\"");
        }
        System.exit(0);
    }

    static void tell(String what) {
        System.out.println("@{" + what + "}");
    }
}
