// Groups of one push consumer each, which ask for one colour by an SQL filter; for
// RemotingClient.java. Together they get each message of a topic once.

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

final class Subscribers {
    /** As many share a client: each start asks the broker about the filters of all of its client. */
    private static final int PER_CLIENT = 25;
    private static final String COLOUR = "colour";

    interface Producing {
        CompletableFuture<?> send(Message message) throws Exception;
    }

    private final String topic;
    private final List<DefaultMQPushConsumer> consumers = new ArrayList<>();
    private final AtomicInteger strange = new AtomicInteger();
    private volatile Load.Seen seen = new Load.Seen(0, 0);
    private volatile Load.Times times = new Load.Times();
    private int sent;

    Subscribers(String nameServers, String topic, int count) throws Exception {
        this.topic = topic;
        for (int n = 0; n < count; n++) consumers.add(started(nameServers, n));
    }

    private DefaultMQPushConsumer started(String nameServers, int number) throws Exception {
        String colour = colour(number);
        DefaultMQPushConsumer made = new DefaultMQPushConsumer("wants-" + colour);
        made.setNamesrvAddr(nameServers);
        made.setInstanceName("subscribers-" + number / PER_CLIENT);
        made.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        made.setMqClientApiTimeout(RemotingClient.REQUEST_MS);
        made.setConsumeThreadMin(1);
        made.setConsumeThreadMax(1);
        made.subscribe(topic, MessageSelector.bySql(COLOUR + " = '" + colour + "'"));
        made.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> came(one, colour));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        made.start();
        return made;
    }

    private static String colour(int number) {
        return "c" + number;
    }

    private void came(MessageExt message, String wanted) {
        if (!wanted.equals(message.getUserProperty(COLOUR))) strange.incrementAndGet();
        long now = System.nanoTime();
        if (seen.add(Load.numberOf(message.getBody()))) {
            times.add(now - Load.dueOf(message.getBody()));
        }
    }

    /** Sends so many as fast as they are taken; all of them came when it returns. */
    String run(Producing producing, int count) throws Exception {
        seen = new Load.Seen(sent, count);
        times = new Load.Times();
        Load.Threads threads = new Load.Threads();
        Semaphore permits = new Semaphore(Load.FILLING);
        long begun = System.nanoTime();
        for (int n = 0; n < count && !threads.isFailed(); n++) {
            permits.acquire();
            Message message = new Message(topic, Load.body(sent + n, System.nanoTime(), 1024));
            message.putUserProperty(COLOUR, colour((sent + n) % consumers.size()));
            producing.send(message).whenComplete((one, failed) -> {
                if (failed != null) threads.fail(failed);
                permits.release();
            });
        }
        permits.acquire(Load.FILLING);
        sent += count;
        while (!seen.isWhole() && !seen.isSilent() && !threads.isFailed()) Thread.sleep(1);
        threads.check();
        seen.check();
        if (strange.get() > 0) throw new IllegalStateException(strange + " of another colour");
        double seconds = (seen.lastNanos() - begun) / 1e9;
        return "{" + Load.pairs("messages", count, "again", seen.again(), "seconds", seconds) + ", "
            + times.told() + "}";
    }
}
