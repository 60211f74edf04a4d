// RocketMQ's gRPC client for Java as a producer of transactions: ENDPOINTS TOPIC COUNT ANSWER.
// Of three half messages the first is committed, the second rolled back, the third left open. What
// is asked is answered with ANSWER: COMMIT, ROLLBACK or UNKNOWN. It ends when a line comes in.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public class GrpcTransactions {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    public static void main(String[] words) throws Exception {
        TransactionResolution answer = TransactionResolution.valueOf(words[3]);
        ClientConfiguration configuration =
                ClientConfiguration.newBuilder()
                        .setEndpoints(words[0])
                        .enableSsl(false)
                        .setRequestTimeout(Duration.ofSeconds(20)) // 3 s are few on busy cores
                        .build();
        Producer producer =
                PROVIDER.newProducerBuilder()
                        .setClientConfiguration(configuration)
                        .setTopics(words[1])
                        .setTransactionChecker(view -> checked(view, answer))
                        .build();
        for (int number = 0; number < Integer.parseInt(words[2]); number++) {
            send(producer, words[1], number);
        }
        tell("@{\"open\": true}");
        System.in.read();
        producer.close();
        tell("@{\"done\": true}");
        System.exit(0);
    }

    static void send(Producer producer, String topic, int number) throws Exception {
        String body = "half " + number;
        Transaction transaction = producer.beginTransaction();
        SendReceipt receipt =
                producer.send(
                        PROVIDER.newMessageBuilder()
                                .setTopic(topic)
                                .setBody(body.getBytes(StandardCharsets.UTF_8))
                                .setTag("tag")
                                .setKeys("key-" + number)
                                .addProperty("colour", "gr\u00fcn")
                                .build(),
                        transaction);
        tell("@{\"sent\": \"" + body + "\", \"id\": \"" + receipt.getMessageId() + "\"}");
        try {
            if (number % 3 == 0) {
                transaction.commit();
            } else if (number % 3 == 1) {
                transaction.rollback();
            }
        } catch (ClientException error) {
            tell("@{\"failed\": \"" + body + "\"}");
        }
    }

    static TransactionResolution checked(MessageView view, TransactionResolution answer) {
        ByteBuffer body = view.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        tell(
                "@{\"checked\": \"" + new String(bytes, StandardCharsets.UTF_8)
                        + "\", \"id\": \"" + view.getMessageId()
                        + "\", \"topic\": \"" + view.getTopic()
                        + "\", \"tag\": \"" + view.getTag().orElse("")
                        + "\", \"keys\": \"" + String.join(" ", view.getKeys())
                        + "\", \"colour\": \"" + view.getProperties().get("colour") + "\"}");
        return answer;
    }

    static void tell(String what) {
        synchronized (System.out) {
            System.out.println(what);
        }
    }
}
