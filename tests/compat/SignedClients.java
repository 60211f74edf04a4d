// RocketMQ's stock client with its hook for access keys, for tests/compat/test_remoting_signed.py.
//
//   ADDRESS TOPIC USER SECRET COUNT TLS    send so many, and consume them by a push consumer; tell
//                                          what was sent and consumed, or why not

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.exception.RemotingException;

public class SignedClients {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        String topic = arguments[1];
        String user = arguments[2];
        int count = Integer.parseInt(arguments[4]);
        boolean tls = Boolean.parseBoolean(arguments[5]);
        RPCHook hook = user.isEmpty() ? null : new AclClientRPCHook(new SessionCredentials(user, arguments[3]));
        DefaultMQProducer producer = new DefaultMQProducer("producers", hook);
        producer.setNamesrvAddr(address);
        producer.setUseTLS(tls);
        producer.setSendMsgTimeout(20_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try { // by itself: a producer says of any failure that there is no route
            producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl()
                .getTopicRouteInfoFromNameServer(topic, 20_000);
        } catch (MQClientException refused) {
            end("\"refused\": " + refused.getResponseCode());
        } catch (RemotingException failed) {
            end("\"unreached\": \"" + failed.getClass().getSimpleName() + "\"");
        }
        for (int n = 0; n < count; n++) {
            producer.send(new Message(topic, "tag", ("ü" + n).getBytes(StandardCharsets.UTF_8)));
            tell("\"sent\": " + n);
        }
        CountDownLatch open = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("readers", hook);
        consumer.setNamesrvAddr(address);
        consumer.setUseTLS(tls);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> {
                tell("\"body\": \"" + new String(one.getBody(), StandardCharsets.UTF_8) + "\"");
                open.countDown();
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean done = open.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
        producer.shutdown();
        end("\"done\": " + done);
    }

    private static synchronized void tell(String what) {
        System.out.println("@{" + what + "}");
    }

    private static void end(String what) {
        tell(what);
        System.exit(0);
    }
}
