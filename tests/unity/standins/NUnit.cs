// Stand-ins for the few types of NUnit that the package's own tests use, and what runs them.

using System;
using System.Reflection;

namespace NUnit.Framework
{
    public sealed class TestAttribute : Attribute { }

    public static class Assert
    {
        public static void AreEqual(object expected, object actual)
        {
            if (!Equals(expected, actual))
            {
                throw new Exception("expected " + expected + ", got " + actual);
            }
        }

        public static void IsTrue(bool condition)
        {
            AreEqual(true, condition);
        }

        public static T Throws<T>(Action action) where T : Exception
        {
            try
            {
                action();
            }
            catch (T exception)
            {
                return exception;
            }
            throw new Exception("no " + typeof(T).Name);
        }
    }

    public static class StandInRunner
    {
        /// <summary>Run every test of the assembly; report(name, what went wrong or null).</summary>
        public static void RunAll(Action<string, string> report)
        {
            foreach (Type type in Assembly.GetExecutingAssembly().GetTypes())
            {
                foreach (MethodInfo method in type.GetMethods())
                {
                    if (method.GetCustomAttribute<TestAttribute>() == null)
                    {
                        continue;
                    }
                    string wrong = null;
                    try
                    {
                        method.Invoke(Activator.CreateInstance(type), null);
                    }
                    catch (TargetInvocationException exception)
                    {
                        wrong = exception.InnerException.Message;
                    }
                    report(type.Name + "." + method.Name, wrong);
                }
            }
        }
    }
}
