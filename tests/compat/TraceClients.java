// RocketMQ's stock client with its own message trace on, for tests/compat/test_client_traces.py:
// one line of JSON for each message that is sent or consumed.
//
//   trace ADDRESS TOPIC GROUP COUNT TRACES
//                                      send so many and consume them, the first of them on the
//                                      second attempt, with traces in the topic TRACES; end when a
//                                      line comes in, since threads of their own send traces

import com.alibaba.fastjson2.JSON;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

public class TraceClients {
    public static void main(String[] words) {
        try {
            trace(words[1], words[2], words[3], Integer.parseInt(words[4]), words[5]);
        } catch (Throwable failed) {
            failed.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static void trace(String address, String topic, String group, int count, String traces)
        throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("traced-producers");
        producer.setNamesrvAddr(address);
        producer.setEnableTrace(true);
        producer.setTraceTopic(traces);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        for (int n = 0; n < count; n++) {
            byte[] body = ("traced " + n).getBytes(StandardCharsets.UTF_8);
            SendResult sent = producer.send(new Message(topic, "tag", "order-" + n + " all", body));
            tell(Map.of("sent", n, "id", sent.getMsgId()));
        }
        consume(address, topic, group, count, traces);
        producer.shutdown();
    }

    private static void consume(String address, String topic, String group, int count, String traces)
        throws Exception {
        CountDownLatch open = new CountDownLatch(count);
        Set<String> failed = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setEnableTrace(true);
        consumer.setTraceTopic(traces);
        consumer.setPollNameServerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            String body = new String(messages.get(0).getBody(), StandardCharsets.UTF_8);
            if (body.equals("traced 0") && failed.add(body)) {
                context.setDelayLevelWhenNextConsume(1);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            tell(Map.of("consumed", body, "times", messages.get(0).getReconsumeTimes()));
            open.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        tell(Map.of("done", open.await(90, TimeUnit.SECONDS)));
        System.in.read();
        consumer.shutdown();
    }

    private static void tell(Map<String, Object> what) {
        synchronized (System.out) {
            System.out.println("@" + JSON.toJSONString(what));
        }
    }
}
