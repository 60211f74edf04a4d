// RocketMQ's stock client, for tests/compat/test_remoting_clients.py: one line of JSON for each
// thing that happens.
//
//   produce ADDRESS TOPIC COUNT             so many sync, async, one-way, and in one batch
//   push ADDRESS TOPIC GROUP TAGS COUNT     consume until so many have come; in place of tags, SQL
//                                           and an expression
//   orderly ADDRESS TOPIC GROUP COUNT      the same by a consumer that keeps the order of queues
//   lite ADDRESS TOPIC GROUP COUNT         the same by a consumer that polls
//   pull ADDRESS TOPIC GROUP                all there is, queue by queue
//   pull-sql ADDRESS TOPIC GROUP SQL        what the expression is true for, likewise
//   through-sql ADDRESS TOPIC GROUP         as through, by an expression that is true for all
//   delayed ADDRESS TOPIC LEVEL COUNT       send so many with a delay level
//   timed ADDRESS TOPIC SECONDS COUNT       send so many, each by the next of the three ways to ask
//                                           for a time, so far away and a second more for each
//   recalled ADDRESS TOPIC SECONDS COUNT    the same, and every second one is recalled
//   failing ADDRESS TOPIC GROUP COUNT MOST  fail to consume until so many have come, each at most
//                                           so often again
//   giving ADDRESS TOPIC GROUP COUNT MOST   the same by a consumer that keeps the order of queues
//   retrying ADDRESS TOPIC GROUP COUNT      send so many, fail with each the first time; once a
//                                           line has come in, end when all were consumed
//   transactions ADDRESS TOPIC GROUP COUNT ANSWER
//                                           send so many half messages: the first is committed, the
//                                           second rolled back, the third left open, and so on; a
//                                           check is answered COMMIT, ROLLBACK or UNKNOWN; ends when
//                                           a line comes in
//   abandoned ADDRESS TOPIC GROUP COUNT     send so many half messages and end without a decision
//   query ADDRESS TOPIC NAME...             what is found by each name as a key, and as an id
//   through ADDRESS TOPIC GROUP             send and consume until a line comes in, then until all
//                                           that was acknowledged has been consumed

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
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

public class RemotingClients {
    public static void main(String[] arguments) {
        try {
            run(arguments);
        } catch (Throwable failed) {
            failed.printStackTrace();
            System.exit(1); // threads of the client would go on for ever
        }
        System.exit(0);
    }

    private static void run(String[] arguments) throws Exception {
        String[] rest = java.util.Arrays.copyOfRange(arguments, 1, arguments.length);
        switch (arguments[0]) {
            case "produce" -> produce(rest[0], rest[1], Integer.parseInt(rest[2]));
            case "push" -> push(rest[0], rest[1], rest[2], rest[3], Integer.parseInt(rest[4]));
            case "orderly" -> orderly(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]));
            case "lite" -> lite(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]));
            case "delayed" -> delayed(rest[0], rest[1], Integer.parseInt(rest[2]), Integer.parseInt(rest[3]));
            case "timed", "recalled" -> timed(rest[0], rest[1], Integer.parseInt(rest[2]), Integer.parseInt(rest[3]), arguments[0].equals("recalled"));
            case "failing" -> failing(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]), Integer.parseInt(rest[4]));
            case "giving" -> giving(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]), Integer.parseInt(rest[4]));
            case "retrying" -> retrying(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]));
            case "transactions" -> transactions(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]), rest[4]);
            case "abandoned" -> abandoned(rest[0], rest[1], rest[2], Integer.parseInt(rest[3]));
            case "query" -> query(rest[0], rest[1], java.util.Arrays.asList(rest).subList(2, rest.length));
            case "through" -> through(rest[0], rest[1], rest[2], "*");
            case "through-sql" -> through(rest[0], rest[1], rest[2], "SQL colour = 'grün' AND TAGS <> 'x'");
            case "pull-sql" -> pullSql(rest[0], rest[1], rest[2], rest[3]);
            default -> pull(rest[0], rest[1], rest[2]);
        }
    }

    private static void tell(Map<String, Object> what) {
        synchronized (System.out) {
            System.out.println("@" + JSON.toJSONString(what));
        }
    }

    private static void produce(String address, String topic, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        for (int n = 0; n < count; n++) {
            tellSent("sync", producer.send(message(topic, "sync", n)));
        }
        CountDownLatch open = new CountDownLatch(count);
        for (int n = 0; n < count; n++) {
            producer.send(message(topic, "async", n), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    tellSent("async", result);
                    open.countDown();
                }

                @Override
                public void onException(Throwable failed) {
                    tell(Map.of("failed", failed.toString()));
                    open.countDown();
                }
            });
        }
        open.await(60, TimeUnit.SECONDS);
        for (int n = 0; n < count; n++) {
            producer.sendOneway(message(topic, "oneway", n));
        }
        List<Message> batch = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            batch.add(message(topic, "batch", n));
        }
        tellSent("batch", producer.send(batch));
        tellSent("large", producer.send(new Message(topic, "large", "k", "x".repeat(100_000).getBytes())));
        producer.shutdown();
    }

    private static void query(String address, String topic, List<String> names) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("askers");
        producer.setNamesrvAddr(address);
        producer.start();
        for (String name : names) {
            Map<String, Object> told = new TreeMap<>();
            told.put("name", name);
            try {
                List<MessageExt> found = producer.queryMessage(topic, name, 64, 0, Long.MAX_VALUE).getMessageList();
                told.put("by_key", found.stream().map(MessageExt::getMsgId).sorted().toList());
                told.put("bodies", found.stream().map(one -> new String(one.getBody(), StandardCharsets.UTF_8)).sorted().toList());
            } catch (MQClientException missing) {
                told.put("missing", missing.getResponseCode());
            }
            try {
                MessageExt one = producer.viewMessage(topic, name);
                told.put("by_id", one == null ? null : new String(one.getBody(), StandardCharsets.UTF_8));
            } catch (Exception none) {
                told.put("no_id", none.getClass().getSimpleName());
            }
            tell(told);
        }
        producer.shutdown();
    }

    private static Message message(String topic, String kind, int number) {
        byte[] body = (kind + " " + number).getBytes(StandardCharsets.UTF_8);
        Message message = new Message(topic, kind, kind + number + " all", body);
        message.putUserProperty("colour", "grün");
        message.setFlag(number);
        return message;
    }

    private static void tellSent(String kind, SendResult result) {
        Map<String, Object> told = new TreeMap<>();
        told.put("sent", kind);
        told.put("status", result.getSendStatus().name());
        told.put("id", result.getMsgId());
        told.put("offset_id", result.getOffsetMsgId());
        told.put("queue", result.getMessageQueue().getQueueId());
        told.put("broker", result.getMessageQueue().getBrokerName());
        told.put("offset", result.getQueueOffset());
        tell(told);
    }

    private static void push(String address, String topic, String group, String tags, int count)
        throws Exception {
        CountDownLatch open = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // Else positions are kept before listeners that are counted have returned.
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        consumer.subscribe(topic, selector(tags));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                tellMessage(message);
                open.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean isDone = open.await(60, TimeUnit.SECONDS);
        consumer.shutdown();  // keeps the positions
        tell(Map.of("done", isDone));
    }

    private static void orderly(String address, String topic, String group, int count)
        throws Exception {
        CountDownLatch open = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                tellMessage(message);
                open.countDown();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        boolean isDone = open.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
        tell(Map.of("done", isDone));
    }

    private static void lite(String address, String topic, String group, int count)
        throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.setAutoCommit(false);
        consumer.start();
        int got = 0;
        for (int polls = 0; got < count && polls < 60; polls++) {
            for (MessageExt message : consumer.poll(1_000)) {
                tellMessage(message);
                got++;
            }
            consumer.commit();
        }
        consumer.shutdown();
        tell(Map.of("done", got >= count));
    }

    private static void delayed(String address, String topic, int level, int count)
        throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.start();
        for (int n = 0; n < count; n++) {
            Message message = message(topic, "delayed", n);
            message.setDelayTimeLevel(level);
            tell(Map.of("asked_ms", System.currentTimeMillis()));
            tellSent("delayed " + n, producer.send(message));
        }
        producer.shutdown();
    }

    private static void timed(String address, String topic, int seconds, int count, boolean recalls)
        throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        for (int n = 0; n < count; n++) {
            Message message = message(topic, "timed", n);
            long later = (seconds + n) * 1_000L;
            long at = System.currentTimeMillis() + later;
            switch (n % 3) {
                case 0 -> message.setDelayTimeSec(seconds + n);
                case 1 -> message.setDelayTimeMs(later);
                default -> message.setDeliverTimeMs(at);
            }
            SendResult result = producer.send(message);
            tell(Map.of("timed", "timed " + n, "at", at, "status", result.getSendStatus().name()));
            if (recalls && n % 2 == 1) {
                String id = producer.recallMessage(topic, result.getRecallHandle());
                tell(Map.of("recalled", "timed " + n, "is_it", id.equals(result.getMsgId())));
            }
        }
        producer.shutdown();
    }

    private static DefaultMQPushConsumer retryConsumer(String address, String topic, String group, int most)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setPollNameServerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(most);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    private static void failing(String address, String topic, String group, int count, int most)
        throws Exception {
        CountDownLatch open = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = retryConsumer(address, topic, group, most);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(RemotingClients::tellMessage);
            messages.forEach(message -> open.countDown());
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        boolean isDone = open.await(90, TimeUnit.SECONDS);
        System.in.read();  // what came last is on its way back
        consumer.shutdown();
        tell(Map.of("done", isDone));
    }

    private static void giving(String address, String topic, String group, int count, int most)
        throws Exception {
        CountDownLatch open = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = retryConsumer(address, topic, group, most);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(RemotingClients::tellMessage);
            messages.forEach(message -> open.countDown());
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
        });
        consumer.start();
        boolean isDone = open.await(90, TimeUnit.SECONDS);
        System.in.read();
        consumer.shutdown();
        tell(Map.of("done", isDone));
    }

    private static void retrying(String address, String topic, String group, int count)
        throws Exception {
        Set<String> open = ConcurrentHashMap.newKeySet();
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        for (int n = 0; n < count; n++) {
            open.add("retrying " + n);
            producer.send(message(topic, "retrying", n));
        }
        DefaultMQPushConsumer consumer = retryConsumer(address, topic, group, 16);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(RemotingClients::tellMessage);
            if (messages.get(0).getReconsumeTimes() == 0) {
                context.setDelayLevelWhenNextConsume(4);
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            messages.forEach(message -> open.remove(new String(message.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.in.read();
        for (int tenths = 0; !open.isEmpty() && tenths < 900; tenths++) {
            Thread.sleep(100);
        }
        producer.shutdown();
        consumer.shutdown();
        tell(Map.of("left", open.size()));
    }

    private static TransactionMQProducer transactional(
        String address, String group, int open, LocalTransactionState answer) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(30_000);
        producer.setPollNameServerInterval(1_000);
        producer.setHeartbeatBrokerInterval(1_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object number) {
                return switch (open == 1 ? 2 : (Integer) number % 3) {
                    case 0 -> LocalTransactionState.COMMIT_MESSAGE;
                    case 1 -> LocalTransactionState.ROLLBACK_MESSAGE;
                    default -> LocalTransactionState.UNKNOW;
                };
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                Map<String, Object> told = new TreeMap<>();
                told.put("checked", new String(message.getBody(), StandardCharsets.UTF_8));
                told.put("transaction", message.getTransactionId());
                told.put("topic", message.getTopic());
                told.put("colour", message.getUserProperty("colour"));
                told.put("times", message.getProperty("TRANSACTION_CHECK_TIMES"));
                tell(told);
                return answer;
            }
        });
        producer.start();
        return producer;
    }

    private static void sendHalves(TransactionMQProducer producer, String topic, int count)
        throws Exception {
        for (int n = 0; n < count; n++) {
            tellSent("half " + n, producer.sendMessageInTransaction(message(topic, "half", n), n));
        }
    }

    private static void transactions(String address, String topic, String group, int count, String answer)
        throws Exception {
        LocalTransactionState state = switch (answer) {
            case "COMMIT" -> LocalTransactionState.COMMIT_MESSAGE;
            case "ROLLBACK" -> LocalTransactionState.ROLLBACK_MESSAGE;
            default -> LocalTransactionState.UNKNOW;
        };
        TransactionMQProducer producer = transactional(address, group, 0, state);
        sendHalves(producer, topic, count);
        System.in.read();
        producer.shutdown();
    }

    private static void abandoned(String address, String topic, String group, int count)
        throws Exception {
        TransactionMQProducer producer = transactional(address, group, 1, LocalTransactionState.UNKNOW);
        sendHalves(producer, topic, count);
        producer.shutdown();
    }

    private static MessageSelector selector(String text) {
        return text.startsWith("SQL ") ? MessageSelector.bySql(text.substring(4)) : MessageSelector.byTag(text);
    }

    private static void pullSql(String address, String topic, String group, String sql) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setHeartbeatBrokerInterval(1_000);  // whose answers tell it of the brokers' versions
        consumer.start();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long offset = consumer.minOffset(queue);
            while (offset < consumer.maxOffset(queue)) {
                PullResult result = pulledBySql(consumer, queue, sql, offset);
                if (result.getMsgFoundList() != null) {
                    result.getMsgFoundList().forEach(RemotingClients::tellMessage);
                }
                offset = result.getNextBeginOffset();
            }
        }
        consumer.shutdown();
    }

    /** Asks again as long as the client has not heard from the broker, which it takes for an old one. */
    private static PullResult pulledBySql(DefaultMQPullConsumer consumer, MessageQueue queue, String sql, long offset)
        throws Exception {
        for (int tenths = 0; ; tenths++) {
            try {
                return consumer.pull(queue, MessageSelector.bySql(sql), offset, 32);
            } catch (MQClientException early) {
                if (tenths == 300 || !early.getErrorMessage().contains("does not upgrade")) {
                    throw early;
                }
                Thread.sleep(100);
            }
        }
    }

    private static void through(String address, String topic, String group, String wanted) throws Exception {
        Set<String> open = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setPollNameServerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, selector(wanted));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                tellMessage(message);
                open.remove(new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.setPollNameServerInterval(1_000);
        producer.start();
        consumer.start();
        for (int n = 0; System.in.available() == 0; n++) {
            String body = "through " + n;
            open.add(body);
            for (boolean isSent = false; !isSent;) {
                try {
                    tellSent(body, producer.send(message(topic, "through", n)));
                    isSent = true;
                } catch (MQClientException | RemotingException | MQBrokerException failed) {
                    tell(Map.of("failed", failed.toString()));
                    Thread.sleep(100);
                }
            }
            Thread.sleep(10);
        }
        for (int tenths = 0; !open.isEmpty() && tenths < 900; tenths++) {
            Thread.sleep(100);
        }
        producer.shutdown();
        consumer.shutdown();  // keeps the positions
        tell(Map.of("left", open.size()));
    }

    private static void pull(String address, String topic, String group) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.start();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult result = consumer.pull(queue, "*", offset, 32);
                if (result.getMsgFoundList() != null) {
                    result.getMsgFoundList().forEach(RemotingClients::tellMessage);
                }
                offset = result.getNextBeginOffset();
            }
            tell(Map.of("queue", queue.getQueueId(), "broker", queue.getBrokerName(), "end", end,
                "first", consumer.searchOffset(queue, 1), "last", consumer.searchOffset(queue, Long.MAX_VALUE),
                "status", consumer.pull(queue, "*", end + 5, 32).getPullStatus().name()));
        }
        consumer.shutdown();
    }

    private static void tellMessage(MessageExt message) {
        Map<String, Object> told = new TreeMap<>();
        byte[] body = message.getBody();
        told.put("body", body == null ? null : new String(body, StandardCharsets.UTF_8));
        told.put("tags", message.getTags());
        told.put("keys", message.getKeys());
        told.put("flag", message.getFlag());
        told.put("id", message.getMsgId());
        told.put("queue", message.getQueueId());
        told.put("offset", message.getQueueOffset());
        told.put("born_ms", message.getBornTimestamp());
        told.put("stored_ms", message.getStoreTimestamp());
        told.put("times", message.getReconsumeTimes());
        told.put("topic", message.getTopic());
        told.put("properties", message.getProperties());
        tell(told);
    }
}
