// What the stock client reads and writes, for tests/compat/test_remoting_codec.py: a command and a
// body in hex on each line of the standard input, one line of JSON on the standard output.

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

public class RemotingCodec {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            Object told = answer(words[0], HEX.parseHex(words[1]));
            System.out.println("@" + JSON.toJSONString(told, JSONWriter.Feature.WriteNonStringKeyAsString));
        }
    }

    private static Object answer(String word, byte[] data) {
        try {
            return switch (word) {
                case "command" -> command(data);
                case "messages" -> messages(data);
                case "again" -> again(data);
                case "heartbeat" -> heartbeat();
                case "route" -> TopicRouteData.decode(data, TopicRouteData.class);
                case "cluster" -> ClusterInfo.decode(data, ClusterInfo.class);
                default -> batch(data);
            };
        } catch (Exception failed) {
            return Map.of("failed", failed.toString() + " " + failed.getStackTrace()[0]);
        }
    }

    /** Reads a frame without its length, and writes it again, with it. */
    private static Object command(byte[] data) throws Exception {
        RemotingCommand command = RemotingCommand.decode(ByteBuffer.wrap(data));
        Map<String, Object> told = new TreeMap<>();
        told.put("code", command.getCode());
        told.put("opaque", command.getOpaque());
        told.put("flag", command.getFlag());
        told.put("version", command.getVersion());
        told.put("language", command.getLanguage().name());
        told.put("remark", command.getRemark());
        told.put("fields", command.getExtFields());
        told.put("body", command.getBody() == null ? "" : HEX.formatHex(command.getBody()));
        ByteBuffer again = command.encode();
        byte[] written = new byte[again.remaining()];
        again.get(written);
        told.put("written", HEX.formatHex(written));
        return told;
    }

    /** Reads what a pull is answered with. */
    private static Object messages(byte[] data) throws Exception {
        List<Object> all = new ArrayList<>();
        for (MessageExt read : MessageDecoder.decodes(ByteBuffer.wrap(data))) {
            Map<String, Object> told = new TreeMap<>();
            told.put("topic", read.getTopic());
            told.put("queue_id", read.getQueueId());
            told.put("queue_offset", read.getQueueOffset());
            told.put("locator", read.getCommitLogOffset());
            told.put("flag", read.getFlag());
            told.put("sys_flag", read.getSysFlag());
            told.put("born_ms", read.getBornTimestamp());
            told.put("store_ms", read.getStoreTimestamp());
            told.put("born_host", read.getBornHost().toString());
            told.put("store_host", read.getStoreHost().toString());
            told.put("reconsume_times", read.getReconsumeTimes());
            told.put("half_offset", read.getPreparedTransactionOffset());
            told.put("body", read.getBody() == null ? "" : HEX.formatHex(read.getBody()));
            told.put("properties", read.getProperties());
            told.put("offset_id", ((org.apache.rocketmq.common.message.MessageClientExt) read).getOffsetMsgId());
            all.add(told);
        }
        return all;
    }

    /** Reads a message and writes it again; without a body or with a long topic that fails. */
    private static Object again(byte[] data) throws Exception {
        MessageExt read = MessageDecoder.decode(ByteBuffer.wrap(data));
        return HEX.formatHex(MessageDecoder.encode(read, false));
    }

    private static Object heartbeat() {
        SubscriptionData subscription = new SubscriptionData("t", "a || b");
        subscription.setTagsSet(Set.of("a", "b"));
        ConsumerData consumer = new ConsumerData();
        consumer.setGroupName("g");
        consumer.setConsumeType(ConsumeType.CONSUME_PASSIVELY);
        consumer.setMessageModel(MessageModel.CLUSTERING);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setSubscriptionDataSet(Set.of(subscription));
        ProducerData producer = new ProducerData();
        producer.setGroupName("p");
        HeartbeatData heartbeat = new HeartbeatData();
        heartbeat.setClientID("client");
        heartbeat.setConsumerDataSet(Set.of(consumer));
        heartbeat.setProducerDataSet(Set.of(producer));
        return HEX.formatHex(heartbeat.encode());
    }

    /** Reads the body of a batch, and writes it again. */
    private static Object batch(byte[] data) throws Exception {
        List<Object> all = new ArrayList<>();
        List<Message> read = MessageDecoder.decodeMessages(ByteBuffer.wrap(data));
        for (Message one : read) {
            Map<String, Object> told = new TreeMap<>();
            told.put("flag", one.getFlag());
            told.put("body", one.getBody() == null ? "" : HEX.formatHex(one.getBody()));
            told.put("properties", one.getProperties());
            all.add(told);
        }
        Map<String, Object> told = new TreeMap<>();
        told.put("messages", all);
        told.put("written", HEX.formatHex(MessageDecoder.encodeMessages(read)));
        return told;
    }
}
