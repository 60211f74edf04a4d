// RocketMQ's remoting client under the loads of Load.java: RemotingClient NAME_SERVERS. What only
// it can do, and what concerns the topics of clients of both protocols:
//
//   topic NAME QUEUES TYPE           made, of this type of messages
//   group NAME                       made
//   held TOPIC COUNT                 wait until so many can be read, and count them all
//   committed TOPIC COUNT            read a topic until so many different ones came
//   timers TOPIC COUNT LEAD_MS WINDOW_MS
//                                    so many become due in a window, after a time to send them in
//   filters TOPIC SUBSCRIBERS COUNT  each subscriber gets what its SQL filter asks for
//   take TOPIC GROUP COUNT           pop so many and acknowledge none

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckStatus;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.consumer.PopStatus;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.impl.mqclient.DoNothingClientRemotingProcessor;
import org.apache.rocketmq.client.impl.mqclient.MQClientAPIExt;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

public final class RemotingClient implements Load.Protocol {
    static final int REQUEST_MS = 20_000;
    private static final long POLL_MS = 1_000;
    private static final long INVISIBLE_MS = 600_000;
    private static final long UNTIL_NANOS = TimeUnit.SECONDS.toNanos(30);
    private static final int TAKING_THREADS = 4;

    private final String nameServers;
    private final DefaultMQAdminExt admin;
    private final MQClientAPIExt api;
    private final Map<String, DefaultMQProducer> producers = new HashMap<>();
    private Subscribers subscribers;

    private RemotingClient(String nameServers) throws Exception {
        this.nameServers = nameServers;
        admin = new DefaultMQAdminExt(REQUEST_MS);
        admin.setNamesrvAddr(nameServers);
        admin.setInstanceName("admin");
        admin.start();
        ClientConfig config = new ClientConfig();
        config.setNamesrvAddr(nameServers);
        api = new MQClientAPIExt(
            config, new NettyClientConfig(), new DoNothingClientRemotingProcessor(null), null);
        api.updateNameServerAddressList(nameServers);
        api.start();
    }

    private DefaultMQProducer producer(int number, boolean isTransactional) throws Exception {
        String name = (isTransactional ? "transactions-" : "load-") + number;
        if (!producers.containsKey(name)) {
            DefaultMQProducer made = isTransactional ? transactional(name) : new DefaultMQProducer(name);
            made.setNamesrvAddr(nameServers);
            made.setInstanceName(name); // a connection of its own
            made.setSendMsgTimeout(REQUEST_MS);
            made.setMqClientApiTimeout(REQUEST_MS); // 3 s are few where all cores are busy
            made.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
            made.start();
            producers.put(name, made);
        }
        return producers.get(name);
    }

    private static TransactionMQProducer transactional(String group) {
        TransactionMQProducer made = new TransactionMQProducer(group);
        made.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return made;
    }

    private static void check(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.getSendStatus().name());
        }
    }

    private static CompletableFuture<?> later(DefaultMQProducer producer, Message message)
        throws Exception {
        CompletableFuture<Void> sent = new CompletableFuture<>();
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (result.getSendStatus() == SendStatus.SEND_OK) sent.complete(null);
                else onException(new IllegalStateException(result.getSendStatus().name()));
            }

            @Override
            public void onException(Throwable failed) {
                sent.completeExceptionally(failed);
            }
        }, REQUEST_MS);
        return sent;
    }

    @Override
    public Load.Sender sender(String topic, int number) throws Exception {
        DefaultMQProducer producer = producer(number, false);
        return new Load.Sender() {
            @Override
            public void send(byte[] body) throws Exception {
                check(producer.send(new Message(topic, body)));
            }

            @Override
            public CompletableFuture<?> sendLater(byte[] body) throws Exception {
                return later(producer, new Message(topic, body));
            }
        };
    }

    @Override
    public Load.Sender transactions(String topic, int number) throws Exception {
        DefaultMQProducer producer = producer(number, true);
        return new Load.Sender() {
            @Override
            public void send(byte[] body) throws Exception {
                TransactionSendResult sent =
                    producer.sendMessageInTransaction(new Message(topic, body), null);
                check(sent);
                if (sent.getLocalTransactionState() != LocalTransactionState.COMMIT_MESSAGE) {
                    throw new IllegalStateException(sent.getLocalTransactionState().name());
                }
            }

            @Override
            public CompletableFuture<?> sendLater(byte[] body) {
                throw new UnsupportedOperationException("one after the other");
            }
        };
    }

    @Override
    public Load.Receiver receiver(String topic, String group) throws Exception {
        BrokerData broker = api.getTopicRouteInfoFromNameServer(topic, REQUEST_MS).getBrokerDatas().get(0);
        String address = broker.getBrokerAddrs().get(0L), name = broker.getBrokerName();
        return new Load.Receiver() {
            @Override
            public List<Load.Got> receive() throws Exception {
                PopMessageRequestHeader header = new PopMessageRequestHeader();
                header.setConsumerGroup(group);
                header.setTopic(topic);
                header.setQueueId(-1); // any of the broker's
                header.setMaxMsgNums(Load.BATCH);
                header.setInvisibleTime(INVISIBLE_MS);
                header.setPollTime(POLL_MS);
                header.setBornTime(System.currentTimeMillis());
                header.setInitMode(0); // a new group begins at the first message
                header.setExpType("TAG");
                header.setExp("*");
                header.setOrder(false);
                header.setBrokerName(name);
                PopResult popped = api.popMessageAsync(address, name, header, REQUEST_MS).get();
                List<Load.Got> found = new ArrayList<>();
                if (popped.getPopStatus() != PopStatus.FOUND) return found;
                for (MessageExt one : popped.getMsgFoundList()) {
                    found.add(new Load.Got(one.getBody(), one.getProperty("POP_CK")));
                }
                return found;
            }

            @Override
            public void acknowledge(List<Load.Got> messages) throws Exception {
                List<String> handles = messages.stream().map(one -> (String) one.handle()).toList();
                AckStatus status = api.batchAckMessageAsync(address, topic, group, handles, REQUEST_MS)
                    .get().getStatus();
                if (status != AckStatus.OK) throw new IllegalStateException("ack: " + status);
            }
        };
    }

    private List<String> masters() throws Exception {
        List<String> found = new ArrayList<>();
        for (BrokerData data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            found.add(data.getBrokerAddrs().get(0L));
        }
        return found;
    }

    private String topic(String topic, int queues, String type) throws Exception {
        TopicConfig config = new TopicConfig(topic, queues, queues, 6);
        config.getAttributes().put("+message.type", type);
        for (String master : masters()) admin.createAndUpdateTopicConfig(master, config);
        long until = System.nanoTime() + UNTIL_NANOS;
        while (true) {
            try {
                if (producer(0, false).fetchPublishMessageQueues(topic).size() >= queues) return "{}";
            } catch (org.apache.rocketmq.client.exception.MQClientException absent) {
                if (System.nanoTime() > until) throw absent;
            }
            if (System.nanoTime() > until) throw new IllegalStateException("queues are missing");
            Thread.sleep(20);
        }
    }

    private String group(String group) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        for (String master : masters()) admin.createAndUpdateSubscriptionGroupConfig(master, config);
        return "{}";
    }

    private String held(String topic, long wanted) throws Exception {
        long until = System.nanoTime() + UNTIL_NANOS;
        while (true) {
            long found = 0;
            for (MessageQueue queue : producer(0, false).fetchPublishMessageQueues(topic)) {
                found += admin.maxOffset(queue) - admin.minOffset(queue);
            }
            if (found >= wanted) return "{" + Load.pairs("messages", found) + "}";
            if (System.nanoTime() > until) {
                throw new IllegalStateException(found + " of " + wanted + " messages are held");
            }
            Thread.sleep(20);
        }
    }

    private interface Came {
        void message(MessageExt message);
    }

    /** Pulls a topic from its beginning, a thread for each queue, until all of them came. */
    private void pull(String topic, Load.Seen seen, Load.Threads threads, Came came) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("pull-" + topic);
        consumer.setNamesrvAddr(nameServers);
        consumer.setInstanceName("pull-" + topic);
        consumer.setMqClientApiTimeout(REQUEST_MS);
        consumer.setBrokerSuspendMaxTimeMillis(POLL_MS);
        consumer.start();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            threads.start(() -> {
                long offset = 0;
                while (!seen.isWhole() && !seen.isSilent() && !threads.isFailed()) {
                    PullResult found = consumer.pullBlockIfNotFound(queue, "*", offset, Load.BATCH);
                    if (found.getMsgFoundList() != null) found.getMsgFoundList().forEach(came::message);
                    offset = found.getNextBeginOffset();
                }
            });
        }
    }

    private String committed(String topic, int count) throws Exception {
        Load.Threads threads = new Load.Threads();
        Load.Seen seen = new Load.Seen(0, count);
        pull(topic, seen, threads, one -> seen.add(Load.numberOf(one.getBody())));
        threads.join();
        seen.check();
        return "{" + Load.pairs("messages", count, "again", seen.again()) + "}";
    }

    private String timers(String topic, int count, long leadMs, long windowMs) throws Exception {
        Load.Seen seen = new Load.Seen(0, count);
        Load.Times late = new Load.Times();
        Load.Threads threads = new Load.Threads();
        AtomicLong early = new AtomicLong(), lastMs = new AtomicLong();
        long firstMs = System.currentTimeMillis() + leadMs;
        pull(topic, seen, threads, one -> {
            long now = System.currentTimeMillis(), by = now - Load.dueOf(one.getBody());
            if (!seen.add(Load.numberOf(one.getBody()))) return;
            late.add(TimeUnit.MILLISECONDS.toNanos(by));
            if (by < 0) early.incrementAndGet();
            lastMs.accumulateAndGet(now, Math::max);
        });
        DefaultMQProducer producer = producer(0, false);
        Semaphore permits = new Semaphore(Load.FILLING);
        for (int n = 0; n < count && !threads.isFailed(); n++) {
            permits.acquire();
            long dueMs = firstMs + n * windowMs / count;
            Message message = new Message(topic, Load.body(n, dueMs, 1024));
            message.setDeliverTimeMs(dueMs);
            later(producer, message).whenComplete((one, failed) -> {
                if (failed != null) threads.fail(failed);
                permits.release();
            });
        }
        permits.acquire(Load.FILLING);
        long spareMs = firstMs - System.currentTimeMillis();
        threads.check();
        if (spareMs < 0) throw new IllegalStateException("all was sent " + -spareMs + " ms too late");
        threads.join();
        seen.check();
        double seconds = Math.max(1, lastMs.get() - firstMs) / 1e3;
        return "{" + Load.pairs("messages", count, "again", seen.again(), "early", early.get(),
            "seconds", seconds, "spare_ms", spareMs) + ", " + late.told() + "}";
    }

    private String filters(String topic, int count, int messages) throws Exception {
        if (subscribers == null) subscribers = new Subscribers(nameServers, topic, count);
        DefaultMQProducer producer = producer(0, false);
        return subscribers.run(message -> later(producer, message), messages);
    }

    private String take(String topic, String group, int count) throws Exception {
        Load.Receiver receiver = receiver(topic, group);
        Load.Seen seen = new Load.Seen(0, count);
        Load.Threads threads = new Load.Threads();
        for (int n = 0; n < TAKING_THREADS; n++) {
            threads.start(() -> {
                while (!seen.isWhole() && !seen.isSilent() && !threads.isFailed()) {
                    for (Load.Got one : receiver.receive()) seen.add(Load.numberOf(one.body()));
                }
            });
        }
        threads.join();
        seen.check();
        return "{" + Load.pairs("messages", count, "again", seen.again()) + "}";
    }

    @Override
    public String more(String[] a) throws Exception {
        return switch (a[0]) {
            case "topic" -> topic(a[1], Load.number(a[2]), a[3]);
            case "group" -> group(a[1]);
            case "held" -> held(a[1], Load.number(a[2]));
            case "committed" -> committed(a[1], Load.number(a[2]));
            case "timers" -> timers(a[1], Load.number(a[2]), Load.number(a[3]), Load.number(a[4]));
            case "filters" -> filters(a[1], Load.number(a[2]), Load.number(a[3]));
            case "take" -> take(a[1], a[2], Load.number(a[3]));
            default -> throw new IllegalArgumentException("no such command: " + a[0]);
        };
    }

    public static void main(String[] words) throws Exception {
        Load.serve(new RemotingClient(words[0]));
    }
}
