// RocketMQ's stock client popping, for tests/compat/test_pop_clients.py and test_pop_failovers.py:
// one line of JSON for each thing that happens.
//
//   mode ADDRESS TOPIC GROUP MODE           the admin client sets how the group gets the topic
//   push ADDRESS TOPIC GROUP COUNT          a push consumer that asks for its queues, until so many
//                                           have come; then until a line comes in
//   failing ADDRESS TOPIC GROUP COUNT       the same, which fails with all it gets
//   api ADDRESS BROKER TOPIC GROUP          pop, acknowledge, change, notification, one by one
//   hanging ADDRESS TOPIC GROUP             a push consumer whose listener never comes back
//   through ADDRESSES TOPIC GROUP           send, pop and acknowledge until a line comes in, then
//                                           until all that was sent is acknowledged

import com.alibaba.fastjson2.JSON;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.consumer.AckStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.impl.ClientRemotingProcessor;
import org.apache.rocketmq.client.impl.mqclient.DoNothingClientRemotingProcessor;
import org.apache.rocketmq.client.impl.mqclient.MQClientAPIExt;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.NotificationRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

public class PopClients {
    private static final long TIMEOUT_MS = 20_000;

    public static void main(String[] arguments) throws Exception {
        String[] rest = java.util.Arrays.copyOfRange(arguments, 1, arguments.length);
        switch (arguments[0]) {
            case "mode" -> mode(rest[0], rest[1], rest[2], MessageRequestMode.valueOf(rest[3]));
            case "push" -> push(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]), true);
            case "failing" -> push(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]), false);
            case "hanging" -> hanging(rest[0], rest[1], rest[2]);
            case "api" -> api(rest[0], rest[1], rest[2], rest[3]);
            default -> through(rest[0], rest[1], rest[2]);
        }
        System.exit(0);
    }

    private static void tell(Map<String, Object> what) {
        synchronized (System.out) {
            System.out.println("@" + JSON.toJSONString(what));
        }
    }

    private static void mode(String address, String topic, String group, MessageRequestMode mode)
        throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(address);
        admin.start();
        admin.setMessageRequestMode(address, topic, group, mode, 8, TIMEOUT_MS);
        tell(Map.of("mode", mode.name()));
        admin.shutdown();
    }

    private static DefaultMQPushConsumer consumer(String address, String topic, String group)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setInstanceName(java.util.UUID.randomUUID().toString());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(10_000);
        // After 10 s and more otherwise, and there is no setting.
        var delays = consumer.getDefaultMQPushConsumerImpl().getClass().getDeclaredMethod("getPopDelayLevel");
        delays.setAccessible(true);
        java.util.Arrays.fill((int[]) delays.invoke(consumer.getDefaultMQPushConsumerImpl()), 1);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    private static void push(String address, String topic, String group, int count, boolean isGood)
        throws Exception {
        CountDownLatch open = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = consumer(address, topic, group);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> tellMessage("consumed", message));
            messages.forEach(message -> open.countDown());
            return isGood ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        tell(Map.of("done", open.await(90, TimeUnit.SECONDS)));
        System.in.read();  // what came last is acknowledged meanwhile
        consumer.shutdown();
    }

    private static void hanging(String address, String topic, String group) throws Exception {
        DefaultMQPushConsumer consumer = consumer(address, topic, group);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> tellMessage("taken", message));
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.in.read();
        tell(Map.of("ended", true));
    }

    private static MQClientAPIExt apiClient(String address) {
        ClientConfig config = new ClientConfig();
        config.setNamesrvAddr(address);
        ClientRemotingProcessor nothing = new DoNothingClientRemotingProcessor(null);
        MQClientAPIExt client = new MQClientAPIExt(config, new NettyClientConfig(), nothing, null);
        client.updateNameServerAddressList(address);
        client.start();
        return client;
    }

    private static PopResult pop(MQClientAPIExt client, String address, String broker, String topic, String group,
        long invisibleMs, long pollMs) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(-1);
        header.setMaxMsgNums(32);
        header.setInvisibleTime(invisibleMs);
        header.setPollTime(pollMs);
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(false);
        header.setBrokerName(broker);
        return client.popMessageAsync(address, broker, header, TIMEOUT_MS).get();
    }

    private static AckResult ack(MQClientAPIExt client, String address, String topic, String group, String receipt)
        throws Exception {
        String[] parts = ExtraInfoUtil.split(receipt);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(receipt);
        header.setBrokerName(ExtraInfoUtil.getBrokerName(parts));
        return client.ackMessageAsync(address, header, TIMEOUT_MS).get();
    }

    private static AckResult change(MQClientAPIExt client, String address, String broker, String topic, String group,
        String receipt, long invisibleMs) throws Exception {
        String[] parts = ExtraInfoUtil.split(receipt);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, topic, group));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(receipt);
        header.setInvisibleTime(invisibleMs);
        header.setBrokerName(broker);
        return client.changeInvisibleTimeAsync(address, broker, header, TIMEOUT_MS).get();
    }

    private static boolean hasMessages(MQClientAPIExt client, String address, String broker, String topic,
        String group, long pollMs) throws Exception {
        NotificationRequestHeader header = new NotificationRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(-1);
        header.setPollTime(pollMs);
        header.setBornTime(System.currentTimeMillis());
        header.setBrokerName(broker);
        return client.notification(address, header, TIMEOUT_MS).get();
    }

    private static String receipt(MessageExt message) {
        return message.getProperty("POP_CK");
    }

    private static void api(String address, String broker, String topic, String group) throws Exception {
        MQClientAPIExt client = apiClient(address);
        tell(Map.of("step", "has", "is", hasMessages(client, address, broker, topic, group, 10_000)));
        PopResult first = pop(client, address, broker, topic, group, 60_000, 10_000);
        List<MessageExt> messages = first.getMsgFoundList();
        messages.forEach(message -> tellMessage("first", message));
        tell(Map.of("step", "ack", "is", ack(client, address, topic, group, receipt(messages.get(0))).getStatus()));
        AckResult changed = change(client, address, broker, topic, group, receipt(messages.get(1)), 60_000);
        tell(Map.of("step", "change", "is", changed.getStatus()));
        tell(Map.of("step", "stale", "is", ack(client, address, topic, group, receipt(messages.get(1))).getStatus()));
        tell(Map.of("step", "changed", "is", ack(client, address, topic, group, changed.getExtraInfo()).getStatus()));
        List<String> rest = new ArrayList<>();
        messages.subList(2, messages.size() - 1).forEach(message -> rest.add(receipt(message)));
        tell(Map.of("step", "batch", "is", client.batchAckMessageAsync(address, topic, group, rest, TIMEOUT_MS).get().getStatus()));
        tell(Map.of("step", "none", "is", pop(client, address, broker, topic, group, 60_000, 0).getPopStatus()));
        MessageExt last = messages.get(messages.size() - 1);
        tell(Map.of("step", "back", "is", change(client, address, broker, topic, group, receipt(last), 0).getStatus()));
        PopResult second = pop(client, address, broker, topic, group, 60_000, 10_000);
        second.getMsgFoundList().forEach(message -> tellMessage("second", message));
        tell(Map.of("step", "end", "is", ack(client, address, topic, group, receipt(second.getMsgFoundList().get(0))).getStatus()));
        tell(Map.of("step", "has", "is", hasMessages(client, address, broker, topic, group, 0)));
        client.shutdown();
    }

    private static void through(String addresses, String topic, String group) throws Exception {
        Set<String> sent = ConcurrentHashMap.newKeySet();
        Set<String> acknowledged = ConcurrentHashMap.newKeySet();
        Thread consuming = new Thread(() -> consume(addresses, topic, group, acknowledged));
        consuming.setDaemon(true);
        consuming.start();
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(addresses);
        producer.setPollNameServerInterval(1_000);
        producer.start();
        for (int n = 0; System.in.available() == 0; n++) {
            String body = "through " + n;
            try {
                producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
                sent.add(body);
                tell(Map.of("sent", body));
            } catch (Exception failed) {
                Thread.sleep(100);
            }
            Thread.sleep(10);
        }
        for (int tenths = 0; !acknowledged.containsAll(sent) && tenths < 900; tenths++) {
            Thread.sleep(100);
        }
        sent.removeAll(acknowledged);
        producer.shutdown();
        tell(Map.of("left", sent.size()));
    }

    private static void consume(String addresses, String topic, String group, Set<String> acknowledged) {
        MQClientAPIExt client = apiClient(addresses);
        Set<String> places = ConcurrentHashMap.newKeySet();
        while (true) {
            try {
                for (BrokerData broker : client.getTopicRouteInfoFromNameServer(topic, 3_000).getBrokerDatas()) {
                    String address = broker.getBrokerAddrs().get(0L);
                    if (address != null) {
                        consumeFrom(client, address, broker.getBrokerName(), topic, group, acknowledged, places);
                    }
                }
            } catch (Exception failed) {
                tell(Map.of("failed", String.valueOf(failed)));
                pause();
            }
        }
    }

    private static void consumeFrom(MQClientAPIExt client, String address, String broker, String topic, String group,
        Set<String> acknowledged, Set<String> places) {
        try {
            PopResult popped = pop(client, address, broker, topic, group, 5_000, 200);
            if (popped.getPopStatus() != PopStatus.FOUND) {
                return;
            }
            for (MessageExt message : popped.getMsgFoundList()) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                boolean isAgain = places.contains(place(message));
                tell(Map.of("popped", body, "times", message.getReconsumeTimes(), "again", isAgain));
            }
            for (MessageExt message : popped.getMsgFoundList()) {
                AckStatus status = ack(client, address, topic, group, receipt(message)).getStatus();
                if (status == AckStatus.OK) {
                    acknowledged.add(new String(message.getBody(), StandardCharsets.UTF_8));
                    places.add(place(message));
                }
            }
        } catch (Exception failed) {
            tell(Map.of("failed", String.valueOf(failed)));
            pause();
        }
    }

    // Not its body: a producer that hears nothing of a send stores the message once more.
    private static String place(MessageExt message) {
        String[] parts = ExtraInfoUtil.split(receipt(message));
        return ExtraInfoUtil.getBrokerName(parts) + "/" + ExtraInfoUtil.getQueueId(parts) + "/"
            + ExtraInfoUtil.getQueueOffset(parts);
    }

    private static void pause() {
        try {
            Thread.sleep(200);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static void tellMessage(String what, MessageExt message) {
        Map<String, Object> told = new TreeMap<>();
        told.put(what, new String(message.getBody(), StandardCharsets.UTF_8));
        told.put("times", message.getReconsumeTimes());
        told.put("topic", message.getTopic());
        told.put("receipt", receipt(message));
        told.put("at_ms", System.currentTimeMillis());
        tell(told);
    }
}
