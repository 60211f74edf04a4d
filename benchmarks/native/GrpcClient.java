// RocketMQ's gRPC client for Java under the loads of Load.java: GrpcClient ENDPOINTS.

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public final class GrpcClient implements Load.Protocol {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Duration REQUEST = Duration.ofSeconds(20);
    private static final Duration POLL = Duration.ofSeconds(5); // the shortest that RocketMQ takes
    private static final Duration INVISIBLE = Duration.ofSeconds(120);

    private final ClientConfiguration configuration;
    private final Map<String, Producer> producers = new HashMap<>();
    private final Map<String, SimpleConsumer> consumers = new HashMap<>();

    private GrpcClient(String endpoints) {
        configuration = ClientConfiguration.newBuilder()
            .setEndpoints(endpoints).enableSsl(false).setRequestTimeout(REQUEST).build();
    }

    private Producer producer(String topic, int number, boolean isTransactional) throws Exception {
        String name = topic + "/" + number + "/" + isTransactional;
        if (!producers.containsKey(name)) {
            var building = PROVIDER.newProducerBuilder()
                .setClientConfiguration(configuration).setTopics(topic);
            if (isTransactional) {
                building.setTransactionChecker(one -> TransactionResolution.COMMIT);
            }
            producers.put(name, building.build()); // with connections of its own
        }
        return producers.get(name);
    }

    private static Message message(String topic, byte[] body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body).build();
    }

    @Override
    public Load.Sender sender(String topic, int number) throws Exception {
        Producer producer = producer(topic, number, false);
        return new Load.Sender() {
            @Override
            public void send(byte[] body) throws Exception {
                producer.send(message(topic, body));
            }

            @Override
            public CompletableFuture<?> sendLater(byte[] body) {
                return producer.sendAsync(message(topic, body));
            }
        };
    }

    @Override
    public Load.Sender transactions(String topic, int number) throws Exception {
        Producer producer = producer(topic, number, true);
        return new Load.Sender() {
            @Override
            public void send(byte[] body) throws Exception {
                Transaction transaction = producer.beginTransaction();
                producer.send(message(topic, body), transaction);
                transaction.commit();
            }

            @Override
            public CompletableFuture<?> sendLater(byte[] body) {
                throw new UnsupportedOperationException("one after the other");
            }
        };
    }

    @Override
    public Load.Receiver receiver(String topic, String group) throws Exception {
        String name = topic + "/" + group;
        if (!consumers.containsKey(name)) {
            consumers.put(name, PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(POLL)
                .setSubscriptionExpressions(
                    Collections.singletonMap(topic, FilterExpression.SUB_ALL))
                .build());
        }
        SimpleConsumer consumer = consumers.get(name);
        return new Load.Receiver() {
            @Override
            public List<Load.Got> receive() throws Exception {
                List<Load.Got> found = new ArrayList<>();
                for (MessageView one : consumer.receive(Load.BATCH, INVISIBLE)) {
                    ByteBuffer body = one.getBody();
                    byte[] bytes = new byte[body.remaining()];
                    body.get(bytes);
                    found.add(new Load.Got(bytes, one));
                }
                return found;
            }

            @Override
            public void acknowledge(List<Load.Got> messages) {
                CompletableFuture<?>[] all = messages.stream()
                    .map(one -> consumer.ackAsync((MessageView) one.handle()))
                    .toArray(CompletableFuture[]::new);
                CompletableFuture.allOf(all).join();
            }
        };
    }

    @Override
    public String more(String[] words) {
        throw new IllegalArgumentException("no such command: " + words[0]);
    }

    public static void main(String[] words) throws Exception {
        Load.serve(new GrpcClient(words[0]));
    }
}
