// RocketMQ's gRPC client for Java as a consumer; one line of JSON for each thing that happens.
//
//   simple ENDPOINTS TOPIC GROUP COUNT KIND EXPRESSION   a simple consumer, until so many are
//                                                        acknowledged; the first one is changed
//   push ENDPOINTS TOPIC GROUP COUNT                     a push consumer, until so many have come; it
//                                                        fails with each `again-…` once
//   hanging ENDPOINTS TOPIC GROUP                        a push consumer that never comes back
//   through ENDPOINTS TOPIC GROUP                        send, receive and acknowledge until a line
//                                                        comes in, then until all that was sent is
//   through-push ENDPOINTS TOPIC GROUP                   the same with a push consumer
//   through-fifo ENDPOINTS TOPIC GROUP                   the same with messages of four message groups

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

public class GrpcConsumers {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final int SIMPLE_THREADS = 3;

    public static void main(String[] words) throws Exception {
        String[] rest = java.util.Arrays.copyOfRange(words, 1, words.length);
        switch (words[0]) {
            case "simple" -> simple(rest);
            case "push" -> push(rest);
            case "hanging" -> hanging(rest);
            default -> through(rest, !words[0].equals("through"), words[0].equals("through-fifo"));
        }
        System.exit(0);
    }

    static void tell(String text) {
        synchronized (System.out) {
            System.out.println("@{" + text + "}");
        }
    }

    static ClientConfiguration configuration(String endpoints) {
        return ClientConfiguration.newBuilder()
                .setEndpoints(endpoints)
                .enableSsl(false)
                .setRequestTimeout(Duration.ofSeconds(20)) // 3 s are few where all cores are busy
                .build();
    }

    static String body(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    static void tellMessage(String what, MessageView message) {
        tell(
                String.format(
                        "\"%s\": \"%s\", \"attempt\": %d, \"id\": \"%s\", \"tag\": \"%s\","
                                + " \"keys\": \"%s\", \"colour\": \"%s\", \"group\": \"%s\"",
                        what,
                        body(message),
                        message.getDeliveryAttempt(),
                        message.getMessageId(),
                        message.getTag().orElse(""),
                        String.join(" ", message.getKeys()),
                        message.getProperties().getOrDefault("colour", ""),
                        message.getMessageGroup().orElse("")));
    }

    static SimpleConsumer simpleConsumer(String[] words, FilterExpression filter) throws Exception {
        return PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration(words[0]))
                .setConsumerGroup(words[2])
                .setAwaitDuration(Duration.ofSeconds(2))
                .setSubscriptionExpressions(Collections.singletonMap(words[1], filter))
                .build();
    }

    static void simple(String[] words) throws Exception {
        int count = Integer.parseInt(words[3]);
        FilterExpression filter =
                new FilterExpression(words[5], FilterExpressionType.valueOf(words[4]));
        SimpleConsumer consumer = simpleConsumer(words, filter);
        boolean isChanged = false;
        for (int done = 0; done < count; ) {
            for (MessageView message : consumer.receive(16, Duration.ofSeconds(30))) {
                if (!isChanged) {
                    isChanged = true;
                    consumer.changeInvisibleDuration(message, Duration.ofSeconds(60));
                    tell("\"changed\": \"" + body(message) + "\"");
                }
                tellMessage("received", message);
                consumer.ack(message);
                done++;
            }
        }
        List<MessageView> more = consumer.receive(16, Duration.ofSeconds(30));
        tell("\"more\": " + more.size());
        consumer.close();
    }

    static void push(String[] words) throws Exception {
        CountDownLatch open = new CountDownLatch(Integer.parseInt(words[3]));
        Set<String> failed = ConcurrentHashMap.newKeySet();
        PushConsumer consumer =
                PROVIDER.newPushConsumerBuilder()
                        .setClientConfiguration(configuration(words[0]))
                        .setConsumerGroup(words[2])
                        .setSubscriptionExpressions(
                                Collections.singletonMap(words[1], FilterExpression.SUB_ALL))
                        .setMessageListener(
                                message -> {
                                    tellMessage("consumed", message);
                                    boolean isFirst = failed.add(body(message));
                                    if (body(message).startsWith("again") && isFirst) {
                                        return ConsumeResult.FAILURE;
                                    }
                                    open.countDown();
                                    return ConsumeResult.SUCCESS;
                                })
                        .build();
        tell("\"done\": " + open.await(90, TimeUnit.SECONDS));
        System.in.read(); // what came last is acknowledged meanwhile
        consumer.close();
        tell("\"closed\": true");
    }

    static void hanging(String[] words) throws Exception {
        PROVIDER.newPushConsumerBuilder()
                .setClientConfiguration(configuration(words[0]))
                .setConsumerGroup(words[2])
                .setSubscriptionExpressions(
                        Collections.singletonMap(words[1], FilterExpression.SUB_ALL))
                .setMessageListener(
                        message -> {
                            tellMessage("taken", message);
                            try {
                                Thread.sleep(Long.MAX_VALUE);
                            } catch (InterruptedException ended) {
                                Thread.currentThread().interrupt();
                            }
                            return ConsumeResult.SUCCESS;
                        })
                .build();
        System.in.read();
    }

    static void through(String[] words, boolean isPush, boolean isFifo) throws Exception {
        Set<String> sent = ConcurrentHashMap.newKeySet();
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        Set<String> refused = ConcurrentHashMap.newKeySet(); // may be acknowledged all the same
        if (isPush) {
            PROVIDER.newPushConsumerBuilder()
                    .setClientConfiguration(configuration(words[0]))
                    .setConsumerGroup(words[2])
                    .setSubscriptionExpressions(
                            Collections.singletonMap(words[1], FilterExpression.SUB_ALL))
                    .setMessageListener(
                            message -> {
                                tell("\"received\": \"" + body(message) + "\"");
                                acknowledged.add(body(message));
                                return ConsumeResult.SUCCESS;
                            })
                    .build();
        } else {
            SimpleConsumer consumer = simpleConsumer(words, FilterExpression.SUB_ALL);
            for (int n = 0; n < SIMPLE_THREADS; n++) {
                Thread receiving = new Thread(() -> receive(consumer, acknowledged, refused));
                receiving.setDaemon(true);
                receiving.start();
            }
        }
        Producer producer =
                PROVIDER.newProducerBuilder()
                        .setClientConfiguration(configuration(words[0]))
                        .setTopics(words[1])
                        .build();
        for (int n = 0; System.in.available() == 0; n++) {
            String body = "through-" + n;
            try {
                var building =
                        PROVIDER.newMessageBuilder()
                                .setTopic(words[1])
                                .setBody(body.getBytes(StandardCharsets.UTF_8));
                if (isFifo) {
                    building.setMessageGroup("group-" + n % 4);
                }
                producer.send(building.build());
                sent.add(body);
                tell("\"sent\": \"" + body + "\"");
            } catch (Exception failed) {
                Thread.sleep(100);
            }
            Thread.sleep(10);
        }
        for (int tenths = 0; !acknowledged.containsAll(sent) && tenths < 900; tenths++) {
            Thread.sleep(100);
        }
        sent.removeAll(acknowledged);
        sent.removeAll(refused); // the nodes are asked for these
        tell("\"left\": " + sent.size());
    }

    static void receive(
            SimpleConsumer consumer, Set<String> acknowledged, Set<String> refused) {
        while (true) {
            try {
                for (MessageView message : consumer.receive(16, Duration.ofSeconds(10))) {
                    boolean isAgain = acknowledged.contains(body(message));
                    tell("\"received\": \"" + body(message) + "\", \"again\": " + isAgain);
                    try {
                        consumer.ack(message);
                        acknowledged.add(body(message));
                    } catch (Exception failed) { // a broken connection is no ClientException
                        refused.add(body(message));
                        tell("\"refused\": \"" + body(message) + "\"");
                    }
                }
            } catch (Exception failed) {
                tell("\"failed\": true");
                pause();
            }
        }
    }

    static void pause() {
        try {
            Thread.sleep(200);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
