// RocketMQ's own filter, for tests/compat/test_sql_filters.py: on each line of the standard input
// the JSON of an expression and of the properties of some messages. It answers with one letter for
// each message: T, F, N (null), E (it can not be evaluated); or R, the expression is refused.

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

public class SqlFilter {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject asked = JSON.parseObject(line);
            out.println("@" + verdicts(asked.getString("sql"), asked.getJSONArray("messages")));
        }
    }

    private static String verdicts(String sql, JSONArray messages) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(sql);
        } catch (MQFilterException refused) {
            return "R";
        }
        StringBuilder told = new StringBuilder();
        for (Object message : messages) {
            Map<String, String> properties = new HashMap<>();
            ((JSONObject) message).forEach((name, value) -> properties.put(name, (String) value));
            told.append(verdict(expression, properties));
        }
        return told.toString();
    }

    private static char verdict(Expression expression, Map<String, String> properties) {
        try {
            Object value = expression.evaluate(new MessageEvaluationContext(properties));
            return value == null ? 'N' : value.equals(true) ? 'T' : 'F';
        } catch (Exception failed) {
            return 'E';
        }
    }
}
